/**
 * Trainings of agents that are killed with kill -9 at ten moments, drawn by a seed: an agent in this process that asks over HTTP, and a program that runs once per rollout.
 * @module-tag long
 */
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { commandFiles } from '../../../src/templates/command-template.ts';
import { ROWS } from '../../../src/templates/template-rows.ts';
import { until } from '../../transport/loopback.ts';
import { finished, type RolloutLine, type RunFolder, type TrainProcess } from '../../vllm/train-process.ts';
import { LaptopRuns, type Printed } from './laptop-runs.ts';

const KILLS = 10;
const STEPS = 4;
/** In each step. */
const ROLLOUTS = 16;
const SETTINGS = {
  'evaluation.every': 2,
  'evaluation.examples': 4,
  'checkpoint.every': 2,
  'checkpoint.keep_rollouts': true,
  'rollouts.repeat_pause_s': 0,
};
const ARGUMENTS = [
  '--preset',
  'laptop-copy',
  '-n',
  '2',
  '-r',
  '8',
  '--steps',
  String(STEPS),
  '-o',
  '.',
  ...Object.entries(SETTINGS).flatMap(([key, value]) => ['--set', `${key}=${value}`]),
];

/** A loop over one tool that asks with fetch. `key` is a number of the rollout's own, the same whenever it is played; every answer is logged under it. */
const OVER_HTTP = `
import { appendFileSync, readFileSync } from 'node:fs';
import { AgentEnv, Dataset, metric, reward, Rubric } from 'vf-search';

const TASK = 'Look things up with find_note before you answer. End with <answer> your answer </answer>, in a few words.';
const parameters = { type: 'object', properties: { query: { type: 'string', description: 'What to look for' } }, required: ['query'], additionalProperties: false };
const tools = [{ type: 'function', function: { name: 'find_note', description: 'Finds notes that contain words of a query.', parameters } }];
const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), 'utf8'));
const notes = read('notes.json');
const words = (text) => new Set(text.toLowerCase().match(/[a-z]{3,}/g) ?? []);
const shared = (a, b) => [...a].filter((word) => b.has(word)).length;
const find = (query) =>
  notes.map((note) => [note, shared(words(query), words(note))]).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]).slice(0, 2).map(([note]) => note).join('\\n') || 'No note contains these words.';
const rows = read('rows.json').map(({ question, golden_answers }, i) => ({ exampleId: i, prompt: [{ role: 'user', content: question }], info: { question, answers: golden_answers } }));

export const loadEnvironment = () =>
  new AgentEnv({
    id: 'over-http',
    train: new Dataset('train', rows.slice(0, -8)),
    eval: new Dataset('held out', rows.slice(-8)),
    rubric: new Rubric({
      funcs: [
        reward(({ row, state }) => Number(row.info.answers.some((golden) => state.answer.toLowerCase().includes('<answer> ' + golden.toLowerCase()))), { name: 'right' }),
        reward(({ modelText }) => Math.min(1, Math.max(0, (100 - modelText.split(/\\s+/).length) / 80)), { name: 'brief', weight: 0.1 }),
        metric(({ state }) => state.key, { name: 'key' }),
      ],
    }),
    maxTurns: 4,
    limits: { responseTokens: 300, contextTokens: 4096 },
    async run({ row, policy, random, signal }) {
      const key = random.float();
      const messages = [{ role: 'system', content: TASK }, { role: 'user', content: row.info.question }];
      for (let turn = 1; ; turn++) {
        const response = await fetch(policy.baseURL + '/chat/completions', {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: 'Bearer ' + policy.apiKey },
          body: JSON.stringify({ model: policy.name, messages, tools }),
          signal,
        });
        if (!response.ok) throw new Error(await response.text());
        const { message } = (await response.json()).choices[0];
        appendFileSync(process.env.TURN_LOG, JSON.stringify({ pid: process.pid, key, turn }) + '\\n');
        const calls = message.tool_calls ?? [];
        if (calls.length === 0 || turn === 4) return { answer: message.content ?? '', key };
        messages.push(message);
        for (const { id, function: called } of calls) {
          let content = 'Error: this call fits no tool.';
          try { content = find(String(JSON.parse(called.arguments).query)); } catch {}
          messages.push({ role: 'tool', tool_call_id: id, content });
        }
      }
    },
  });
`;

interface Logged {
  readonly pid: number;
  readonly key: number;
  readonly turn: number;
}
type Line = RolloutLine & { readonly metrics: { readonly key?: number } };

let scratch: string;
let calm: LaptopRuns;
let killed: LaptopRuns;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'vf-killed-'));
  mkdirSync(join(scratch, 'tmp'));
  [calm, killed] = [new LaptopRuns(), new LaptopRuns()];
});
afterEach(async () => {
  for (const runs of [calm, killed]) await runs[Symbol.asyncDispose]();
  rmSync(scratch, { recursive: true, force: true });
});

/** Every process makes its temporary folders in one that the test reads at the end. */
const variables = () => ({ VF_BASE_URL: '', TMPDIR: join(scratch, 'tmp'), TURN_LOG: join(scratch, 'turns.jsonl') });
const recorded = (run: RunFolder): readonly Line[] =>
  Array.from({ length: STEPS }, (_, i) => run.rollouts(i + 1))
    .flat()
    .filter((line): line is Line => line.complete !== true);
const textOf = (lines: readonly Line[]) => lines.map((line) => JSON.stringify(line));

async function adapterOf(process: TrainProcess): Promise<string> {
  const { adapter, log_prob_difference: difference } = await finished<Printed>(process);
  expect(difference.max).toBe(0);
  return createHash('sha256')
    .update(readFileSync(join(adapter, 'adapter_model.safetensors')))
    .digest('hex');
}

/** What was on file when a process was killed. */
interface Kill {
  readonly pid: number;
  readonly lines: readonly Line[];
}

/** Trains on an environment that is killed at ten moments, and gives what each kill left. */
async function trainThroughKills(environment: string, random: Random): Promise<{ adapter: string; run: RunFolder; kills: readonly Kill[] }> {
  const moments = Array.from({ length: KILLS }, () => random.integer(STEPS * ROLLOUTS - 4)).toSorted((a, b) => a - b);
  const kills: Kill[] = [];
  let process = killed.start([environment, ...ARGUMENTS], variables());
  for (const moment of moments) {
    const run = await killed.reach(process, (is) => recorded(is).length >= moment);
    // Into whatever follows: turns, the update, a checkpoint, or the start of the process.
    const dueMs = performance.now() + random.integer(300);
    await until(() => performance.now() >= dueMs);
    await process.kill();
    expect((await process.ended).signal).toBe('SIGKILL');
    kills.push({ pid: process.child.pid!, lines: recorded(run) });
    process = killed.start(['-R', run.path], variables());
  }
  const adapter = await adapterOf(process);
  return { adapter, run: killed.folder.run()!, kills };
}

/** What was recorded once stays as it is, and is recorded once. */
function expectKept(run: RunFolder, kills: readonly Kill[]): void {
  const lines = recorded(run);
  expect(lines).toHaveLength(STEPS * ROLLOUTS);
  for (const step of run.steps()) expect(new Set(run.rollouts(step).map(({ rollout_id: id }) => id)).size).toBe(run.rollouts(step).length);
  const texts = new Set(textOf(lines));
  for (const kill of kills) expect(textOf(kill.lines).filter((text) => !texts.has(text))).toEqual([]);
}

/** Of Node and of tsx, which stay. */
const CACHES = /^(vf-search-compile-cache|node-compile-cache|tsx-\d+)$/;

/** No process of a run or of a rollout is left, and no folder of one. */
async function expectNothingLeft(): Promise<void> {
  const isOurs = (pid: string) => read(`/proc/${pid}/environ`).includes(`TMPDIR=${scratch}`) || linkOf(`/proc/${pid}/cwd`).startsWith(scratch);
  await until(() => !readdirSync('/proc').some((pid) => /^\d+$/.test(pid) && isOurs(pid)));
  expect(readdirSync(join(scratch, 'tmp')).filter((name) => !CACHES.test(name))).toEqual([]);
}

/** Empty for a process that has ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

/** Eleven processes one after the other, twice; on a busy machine each takes a minute. */
const TIMEOUT_MS = 3_600_000;

describe('vf-train on an agent, killed at ten moments', { timeout: TIMEOUT_MS }, () => {
  it('over HTTP in one process: samples no recorded turn again, records none twice, and gives the adapter of an undisturbed run', async () => {
    const folder = join(scratch, 'over-http');
    mkdirSync(folder);
    writeFileSync(join(folder, 'environment.mjs'), OVER_HTTP);
    writeFileSync(join(folder, 'rows.json'), JSON.stringify(ROWS.map(({ question, golden_answers }) => ({ question, golden_answers }))));
    writeFileSync(join(folder, 'notes.json'), JSON.stringify(ROWS.map(({ title, note }, i) => `Doc ${i + 1}(Title: ${title}) ${note}`)));
    const undisturbed = await adapterOf(calm.start([folder, ...ARGUMENTS], { ...variables(), TURN_LOG: join(scratch, 'undisturbed.jsonl') }));
    const { adapter, run, kills } = await trainThroughKills(folder, Random.fromSeed(1));
    expect(adapter).toBe(undisturbed);
    expectKept(run, kills);
    const log = read(join(scratch, 'turns.jsonl'))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Logged);
    const pids = kills.map(({ pid }) => pid);
    // That of the last process is not among them.
    const orderOf = (pid: number) => (pids.includes(pid) ? pids.indexOf(pid) : pids.length);
    // Of a rollout that was on file, no later process asked for a turn.
    const again = kills.flatMap(({ pid, lines }) => {
      const keys = new Set(lines.map(({ metrics }) => metrics.key));
      return log.filter((each) => keys.has(each.key) && orderOf(each.pid) > orderOf(pid));
    });
    expect(again).toEqual([]);
    // Nor did one process ask twice for a turn, of which the record holds each of its rollout.
    const turnsOf = new Map(recorded(run).map((line) => [line.metrics.key, line.segments.filter(({ kind }) => kind === 'model').length]));
    expect(turnsOf.size).toBe(STEPS * ROLLOUTS);
    const trained = log.filter(({ key }) => turnsOf.has(key)).map(({ pid, key, turn }) => `${pid} ${key} ${turn}`);
    expect(new Set(trained).size).toBe(trained.length);
    for (const [key, turns] of turnsOf) {
      const own = log.filter((each) => each.key === key);
      const last = own.filter(({ pid }) => pid === own.at(-1)!.pid);
      expect(last.map(({ turn }) => turn)).toEqual(Array.from({ length: turns }, (_, i) => i + 1));
    }
    await expectNothingLeft();
  });

  it('a process per rollout: loses and repeats nothing that was recorded, gives the adapter of an undisturbed run, and leaves no process and no folder', async () => {
    const { files } = commandFiles('py-agent');
    const folder = join(scratch, 'py-agent');
    mkdirSync(folder);
    for (const [name, text] of Object.entries(files)) if (!name.endsWith('.test.ts')) writeFileSync(join(folder, name), text);
    const undisturbed = await adapterOf(calm.start([folder, ...ARGUMENTS], variables()));
    const { adapter, run, kills } = await trainThroughKills(folder, Random.fromSeed(2));
    expect(adapter).toBe(undisturbed);
    expectKept(run, kills);
    await expectNothingLeft();
  });
});
