/** The table "Bad endings" of docs/training-run.md: each row is a run of vf-train that ends so, with what it leaves in every column, and what `-R` makes of it. */
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type WritableHub, writableHub, WRITER } from '../../data/writable-hub.ts';
import { type RunFolder, TrainFolder } from '../../vllm/train-process.ts';

const ROOT = join(import.meta.dirname, '../../..');
const STEPS = 3;
const SETTINGS = {
  'evaluation.every': 1,
  'evaluation.examples': 2,
  'checkpoint.every': 1,
  'policy.embedded.threads': 1,
  'rollouts.max_tokens': 12,
  'rollouts.repeat_pause_s': 0,
};

interface Ending {
  /** As the table names it. */
  readonly name: string;
  readonly words?: readonly string[];
  /** What an earlier process does before: a run of so many steps. */
  readonly stepsBefore?: number;
  /** For `toy-with-faults.ts`. */
  readonly fault?: { readonly call?: number; readonly signal?: NodeJS.Signals; readonly isFlat?: true };
  /** For `fail-at.mjs`. */
  readonly failAt?: { readonly match: string; readonly from: number; readonly how: 'kill' | 'full' | 'refuse' };
  /** Flags of the resume, if the command that the run prints needs some. @default those that it prints */
  readonly resume?: readonly string[];
  /** Other tests end a run at the same moment: faults-everywhere.test.ts, full-disk.test.ts. */
  readonly isLong?: true;
}

const ENDINGS: readonly Ending[] = [
  { name: 'weights that are not finite', stepsBefore: 2, words: ['--allow-changes', '--lr', '1e20'] },
  { name: 'the last publish fails', failAt: { match: '^POST /v1/load_lora_adapter', from: 5, how: 'refuse' } },
  { name: 'kill -9 in the middle of a step', fault: { call: 20, signal: 'SIGKILL' }, isLong: true },
  {
    name: 'kill -9 while a checkpoint is written',
    failAt: { match: '^rename .*/checkpoints/step-000002\\.\\d+\\.tmp', from: 1, how: 'kill' },
    isLong: true,
  },
  { name: 'kill -9 while a version is published', failAt: { match: '^POST /v1/load_lora_adapter', from: 4, how: 'kill' }, isLong: true },
  {
    name: 'the disk is full at the last checkpoint',
    failAt: { match: '^mkdir .*/checkpoints/step-000003\\.\\d+\\.tmp', from: 1, how: 'full' },
    isLong: true,
  },
  { name: 'the disk is full while best/ is written', failAt: { match: '^\\w+ .*/best\\.new\\.tmp/.', from: 1, how: 'full' }, isLong: true },
  { name: 'a guard stops it', words: ['--set', 'guards.min_entropy=9', '--set', 'guards.on_alarm=stop'], resume: ['--set', 'guards.on_alarm=warn'] },
  { name: 'an evaluation fails', fault: { call: 7 }, isLong: true },
  { name: 'all steps are skipped', fault: { isFlat: true }, resume: ['--steps', '6'], isLong: true },
  { name: 'Ctrl-C in the middle of a step', fault: { call: 20, signal: 'SIGINT' }, isLong: true },
];

let hub: WritableHub;
let folder: TrainFolder;
let whole: string;
let wholeBest: string;
beforeEach(async () => {
  hub = await writableHub();
  begin();
});
afterEach(async () => {
  folder[Symbol.dispose]();
  await hub[Symbol.asyncDispose]();
});

function begin(): void {
  folder = new TrainFolder();
  copyFileSync(join(import.meta.dirname, 'toy-with-faults.ts'), join(folder.path, 'toy.ts'));
  symlinkSync(join(ROOT, 'node_modules'), join(folder.path, 'node_modules'));
}

const words = (more: readonly string[] = []) => [
  'toy.ts',
  '--preset',
  'laptop',
  '-n',
  '2',
  '-r',
  '4',
  '-o',
  '.',
  '--name',
  'toy',
  ...Object.entries(SETTINGS).flatMap(([key, value]) => ['--set', `${key}=${value}`]),
  '--eval-args',
  '{"isEvaluation": true}',
  '-a',
  JSON.stringify({ faults: join(folder.path, 'fault') }),
  ...more,
];

/** Plays the process of an ending; with faults that need one, in a process of its own. */
function play(args: readonly string[], { fault, failAt }: Partial<Ending> = {}) {
  const variables = {
    PATH: '/nonexistent',
    VF_BASE_URL: '',
    HF_ENDPOINT: hub.url,
    HF_TOKEN: WRITER,
    ...(failAt === undefined ? {} : { FAIL_AT: JSON.stringify(failAt), NODE_OPTIONS: `--import ${join(import.meta.dirname, 'fail-at.mjs')}` }),
  };
  const isAlone = failAt !== undefined || fault?.signal !== undefined;
  return isAlone ? folder.start(args, variables).ended : folder.runInProcess(args, variables).ended;
}

const newest = (run: RunFolder) => run.names('checkpoints').findLast((name) => !name.endsWith('.tmp')) ?? null;
const adapterSum = (run: RunFolder) =>
  createHash('sha256')
    .update(readFileSync(join(run.path, 'checkpoints', newest(run)!, 'adapter/adapter_model.safetensors')))
    .digest('hex');
const leftOvers = (run: RunFolder) => [...run.names('.'), ...run.names('checkpoints')].filter((name) => name.endsWith('.tmp'));
const stepText = (step: number | string) => `step ${Number(step)}`;

function cardOf(run: RunFolder): string {
  const card = newest(run) === null ? '' : join(run.path, 'checkpoints', newest(run)!, 'adapter/README.md');
  const [, step] = existsSync(card) ? /after step (\d+) of \d+/.exec(readFileSync(card, 'utf8'))! : [];
  return step === undefined ? 'none' : stepText(step);
}

function bestOf(run: RunFolder): string {
  const file = join(run.path, 'best/evaluation.json');
  if (!existsSync(file)) return 'none';
  const { step } = JSON.parse(readFileSync(file, 'utf8')) as { step: number };
  // It is one that was measured: its row says the same.
  expect(run.rows('evaluation').map((row) => row['step'])).toContain(step);
  return stepText(step);
}

/** The cells of an ending, in the order of the table. */
async function cellsOf(ending: Ending): Promise<string[]> {
  const { name, fault, stepsBefore, words: own = [] } = ending;
  const push = ['--push', 'me/toy'];
  if (stepsBefore !== undefined) await play(words(['--steps', String(stepsBefore)]));
  if (fault !== undefined) writeFileSync(join(folder.path, 'fault.json'), JSON.stringify(fault));
  const steps = ['--steps', String(STEPS), ...push];
  const before = folder.run();
  const { code, signal, stdout, stderr } = await play(before === null ? words([...own, ...steps]) : ['-R', before.path, ...own, ...steps], ending);
  rmSync(join(folder.path, 'fault.json'), { force: true });
  const run = folder.run()!;
  const summary = stdout === '' ? null : (JSON.parse(stdout) as { reason: string; step: number; steps: number });
  expect(hub.repositories.size).toBe(0);
  // A killed process cannot tidy up; the next one does.
  expect(signal === null ? leftOvers(run) : []).toEqual([]);
  const left = [
    newest(run) === null ? 'none' : stepText(newest(run)!.slice('step-'.length, 'step-000000'.length)),
    bestOf(run),
    summary === null ? 'none' : `${summary.reason} after ${summary.step} of ${summary.steps}`,
    cardOf(run),
    /nothing was pushed/.test(stderr) ? 'not pushed, and says so' : 'not pushed',
    signal === null ? String(code) : 'killed',
  ];
  const [, printed = ''] = /continue this run with .* -R \S+(?: (.*))?\n/.exec(stderr) ?? [];
  const flags = ending.resume?.join(' ') ?? printed;
  const resumed = await play(['-R', run.path, ...flags.split(' ').filter(Boolean), ...push]);
  const end = JSON.parse(resumed.stdout) as { reason: string };
  expect([name, resumed.code, resumed.stderr]).toEqual([name, 0, resumed.stderr]);
  expect(hub.repositories.get('models/me/toy')!.files.get('adapter_model.safetensors')).toEqual(
    readFileSync(join(run.path, 'checkpoints', newest(run)!, 'adapter/adapter_model.safetensors')),
  );
  const isWhole = adapterSum(run) === whole;
  expect(isWhole ? bestOf(run) : wholeBest).toBe(wholeBest);
  expect(leftOvers(run)).toEqual([]);
  expect(cardOf(run)).toBe(stepText(newest(run)!.slice('step-'.length, 'step-000000'.length)));
  return [...left, `\`-R${flags === '' ? '' : ` ${flags}`}\`: ${end.reason}${isWhole ? ', the same weights' : ''}`];
}

/** The rows of the table, by their first cell. */
const TABLE = new Map(
  readFileSync(join(ROOT, 'docs/training-run.md'), 'utf8')
    .split('## Bad endings')[1]!
    .split('\n## ')[0]!
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) => line.slice(2, -2).split(' | '))
    .map(([first, ...cells]) => [first!, cells] as const),
);

describe('the table of bad endings', { timeout: 300_000 }, () => {
  beforeAll(async () => {
    hub = await writableHub();
    begin();
    await play(words(['--steps', String(STEPS)]));
    whole = adapterSum(folder.run()!);
    wholeBest = bestOf(folder.run()!);
    folder[Symbol.dispose]();
    await hub[Symbol.asyncDispose]();
  }, 300_000);

  for (const ending of ENDINGS)
    it(`says what a run leaves and how it is resumed: ${ending.name}`, ending.isLong === true ? { tags: 'long' } : {}, async () => {
      expect(await cellsOf(ending)).toEqual(TABLE.get(ending.name));
    });

  it('has no row that is not played', () => {
    expect([...TABLE.keys()].filter((name) => !/^(ending|---)/.test(name)).toSorted()).toEqual(ENDINGS.map(({ name }) => name).toSorted());
  });
});
