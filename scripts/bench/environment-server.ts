/**
 * CPU of `vf-serve environment` per two-turn episode by token ids, JSON and HTTP included, compared with that of the rollout engine in this process on the same task with
 * the same tokenizer and a caller that answers at once. Batches of 256.
 * `node --conditions=vf-search-source scripts/bench/environment-server.ts [--runs 5] [--json]`
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { runRollouts } from 'vf-search/rollouts';
import { CallerPolicy } from '../../src/clients/caller-policy.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { cpuMs } from '../proof/watch-process.ts';
import { measurement, type Pair, report } from './measurement.ts';
import { benchQuestions, TwoTurnEnv } from './two-turn-task.ts';

const EPISODES = 1792;
const BATCH = 256;
const TURNS = ['<think>I need to look this up.</think>\n<search>who is it</search>', '<think>Found.</think>\n<answer>Beijing</answer>'];
const ROOT = join(import.meta.dirname, '../..');

const tokenizer = await openLocalTokenizer(join(ROOT, 'models/nano-base'));
const samples = await Promise.all(TURNS.map(async (text) => [...(await tokenizer.encode(text)).ids]));
/** Of the same length as in a real response. */
const logProbs = samples.map((ids) => ids.map((_, i) => -0.123456789012345 * (1 + (i % 7))));

/** CPU milliseconds per episode of the engine in this process, played by a caller in this process. */
async function engine(environment: TwoTurnEnv): Promise<number> {
  const client = new CallerPolicy({
    kind: 'tokens',
    tokenizer,
    ask: async ({ turn }) => ({ kind: 'tokens', tokenIds: samples[turn]!, logProbs: logProbs[turn]!, finish: 'stop' }),
  });
  const groups = [...environment.eval].map((row) => ({ row, indices: [0] }));
  const before = process.cpuUsage();
  const options = { environment, client, sampling: { temperature: 1, topP: 1 }, maxTokens: null, maxConcurrent: BATCH, timeoutMs: null, seed: 0 };
  for await (const { rollouts } of runRollouts(groups, { ...options, signal: new AbortController().signal })) {
    if (rollouts[0]!.error !== null) throw new Error(rollouts[0]!.error.chain);
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e3 / environment.eval.length;
}

interface Turn {
  readonly episode_id: string;
  readonly turn: number;
  readonly done: boolean;
  readonly rollout?: { readonly reward: number | null; readonly num_turns: number };
}

class Server implements AsyncDisposable {
  readonly url: string;
  readonly #child;

  private constructor(url: string, child: ReturnType<typeof spawn>) {
    this.url = url;
    this.#child = child;
  }

  static async start(environment: string): Promise<Server> {
    const args = ['bin/vf-serve.js', 'environment', environment, '--tokenizer', 'nano-base', '--port', '0'];
    const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    return new Server(String(line).trim(), child);
  }

  /** Milliseconds of CPU so far. */
  get cpuMs(): number {
    return cpuMs(this.#child.pid!);
  }

  async post(path: string, body: object): Promise<readonly Turn[]> {
    const text = JSON.stringify(body);
    const response = await fetch(this.url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: text });
    const answer = await response.text();
    if (response.status !== 200) throw new Error(answer);
    return (JSON.parse(answer) as { episodes: Turn[] }).episodes;
  }

  async play(exampleIds: readonly unknown[]): Promise<void> {
    let open = await this.post('/v1/episodes', { policy: { kind: 'tokens' }, episodes: exampleIds.map((id) => ({ example_id: id })) });
    while (open.length > 0) {
      const episodes = open.map(({ episode_id, turn }) => ({
        episode_id,
        turn,
        token_ids: samples[turn],
        logprobs: logProbs[turn],
        finish_reason: 'stop',
      }));
      const answers = await this.post('/v1/episodes/step', { episodes });
      for (const { done, rollout } of answers) if (done && rollout!.reward === null) throw new Error('An episode failed.');
      open = answers.filter(({ done }) => !done);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    await once(this.#child, 'close');
  }
}

async function served(server: Server): Promise<number> {
  const before = server.cpuMs;
  for (let i = 0; i < EPISODES; i += BATCH) await server.play(Array.from({ length: BATCH }, (_, k) => i + k));
  return (server.cpuMs - before) / EPISODES;
}

const { values } = parseArgs({ options: { runs: { type: 'string', default: '5' }, json: { type: 'boolean' } } });
const environment = new TwoTurnEnv(benchQuestions(EPISODES));
await engine(environment);
{
  await using server = await Server.start('scripts/bench/two-turn-task.ts');
  await served(server);
  const pairs: Pair[] = [];
  for (let run = 0; run < Number(values.runs); run++) pairs.push({ peer: await engine(environment), ours: await served(server) });
  report([measurement({ what: 'vf-serve environment, CPU per episode', unit: 'ms', against: 'the engine alone', bar: 2 }, pairs)]);
}
