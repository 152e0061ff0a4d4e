/**
 * search-o1 without a server: CPU of an episode with one search, compared with UltraRAG's pipeline and search-r1 in this package; and the time of 31 questions while
 * the refinement of another is slow. `node --conditions=vf-search-source scripts/bench/search-o1.ts [--runs 5] [--json]`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type Retriever, scriptedModel } from 'vf-search';
import { openRoleModels } from 'vf-search/rollouts';
import { pageSearch, SearchO1Env } from 'vf-search/environments/search-o1';
import { SearchR1Env } from 'vf-search/environments/search-r1';
import { measurement, median, report } from './measurement.ts';
import { playEpisodes } from './play-episodes.ts';
import { benchQuestions } from './two-turn-task.ts';

const EPISODES = 1000;
const CONCURRENCY = 32;
/** CPU of a further question of the same method in UltraRAG 76c1614, over servers without latency; pipelines.ts describes the measurement. */
const ULTRARAG_MS = 17.6;
const CONTENTS = '"Heron"\nThe heron is a long-legged bird. It lives at lakes and rivers. Who is it? It is grey.';
const SEARCH_O1_TURNS = ['I look it up.\n<|begin_search_query|>who is it<|end_search_query|>', 'It says so: \\boxed{Beijing}'];
const SEARCH_R1_TURNS = ['<think>I look it up.</think>\n<search>who is it</search>', '<think>It says so.</think>\n<answer>Beijing</answer>'];

const retriever: Retriever = {
  name: 'instant',
  search: async (queries, { topk }) => queries.map(() => Array.from({ length: topk }, (_, i) => ({ id: String(i), contents: CONTENTS }))),
  close: async () => {},
};

const rows = benchQuestions(EPISODES).map((question, index) => ({ ...question, id: `q${index}`, data_source: 'nq', split: 'test', index }));

/** CPU milliseconds per episode. */
async function cpu(run: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e3 / EPISODES;
}

/** Both with the passages of search-r1's default, so that the same text is searched. */
const TOPK = 3;
const searchO1 = new SearchO1Env({ rows, search: pageSearch(retriever, { topk: TOPK }) });
const searchR1 = new SearchR1Env({ rows, retriever, topk: TOPK });

async function oneEpisode(): Promise<{ o1: number; r1: number }> {
  await using roles = await openRoleModels({ refiner: { model: searchO1.roles['refiner']!.builtin! } });
  return {
    o1: await cpu(() => playEpisodes({ environment: searchO1, turns: SEARCH_O1_TURNS, concurrency: CONCURRENCY, models: roles })),
    r1: await cpu(() => playEpisodes({ environment: searchR1, turns: SEARCH_R1_TURNS, concurrency: CONCURRENCY })),
  };
}

const [QUESTIONS, QUICK_MS, SLOW_MS] = [32, 20, 2000];

/** Milliseconds until all questions but the slow one are finished. */
async function others(): Promise<number> {
  const environment = new SearchO1Env({ rows: rows.slice(0, QUESTIONS), search: pageSearch(retriever, { topk: TOPK }) });
  let asked = 0;
  const model = scriptedModel({
    replies: async () => {
      await sleep(asked++ === 0 ? SLOW_MS : QUICK_MS);
      return '\n**Final Information**\n\nIt is grey.';
    },
  });
  await using roles = await openRoleModels({ refiner: { model } });
  const start = performance.now();
  let [finished, ms] = [0, Infinity];
  const onRollout = () => {
    if (++finished === QUESTIONS - 1) ms = performance.now() - start;
  };
  await playEpisodes({ environment, turns: SEARCH_O1_TURNS, concurrency: CONCURRENCY, models: roles, onRollout });
  return ms;
}

const { values } = parseArgs({ options: { runs: { type: 'string', default: '5' }, json: { type: 'boolean' } } });
await oneEpisode();
const episodes: { o1: number; r1: number }[] = [];
const waits: number[] = [];
for (let run = 0; run < Number(values.runs); run++) {
  episodes.push(await oneEpisode());
  waits.push(await others());
}
const what = 'search-o1 in process, zero latency, one search: CPU an episode';
report([
  measurement(
    { what, unit: 'ms', against: 'UltraRAG 76c1614, recorded', bar: 0.03 },
    episodes.map(({ o1 }) => ({ ours: o1, peer: ULTRARAG_MS })),
  ),
  measurement(
    { what, unit: 'ms', against: 'search-r1', bar: 2 },
    episodes.map(({ o1, r1 }) => ({ ours: o1, peer: r1 })),
  ),
  measurement({ what: '32 questions, refinements of 20 ms, one of 2 s: the other 31 done', unit: 'ms', against: 'in lock-step', bar: 0.5 }, [
    { ours: median(waits), peer: SLOW_MS },
  ]),
]);
