/**
 * The loop closes: by one command, phase 1, buckets, a focused round, supervised steps on its rare successes and a next round from their adapter. Judged on
 * held-out questions that the round's own start seldom answers: these questions are found with other draws than the compared ones.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { readMetrics } from '../../src/trainer/records/metrics-journal.ts';
import { runCommand } from './run-command.ts';
import type { ProofOptions } from './proof-options.ts';
import { tableLines, type Verdict } from './results-page.ts';
import { type ProvenRun, ROOT, setFlags } from './train-once.ts';
import type { ProofPart } from './parts-page.ts';
import { readRegularFileSync } from '../../src/files/regular-file.ts';

interface Interval {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  readonly n: number;
}

interface Step {
  readonly key: string;
  readonly seconds: number;
  readonly run: string | null;
  readonly adapter: string | null;
}

interface Loop {
  readonly seed: number;
  readonly seconds: number;
  readonly steps: readonly Step[];
  readonly hard: number;
  readonly start: Interval;
  readonly taught: Interval;
  readonly funnel: string;
  readonly runs: readonly ProvenRun[];
}

/** The stages of every loop; each is a row of the report. */
const STAGES = ['bucket', 'extract', 'finalize', 'sft'];

/** Mean reward up to which a held-out question counts as hard for the round's start. */
const HARD = 0.6;
const ROWS = 'packages/vf-search-models/datasets/page-world';

export async function proveLoop(options: ProofOptions): Promise<ProofPart> {
  const loops: Loop[] = [];
  for (const seed of options.seeds) loops.push(await closeLoop(seed, options));
  const shown = ({ value, low, high }: Interval) => `${value.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})`;
  return {
    title: 'The loop closes: rounds over one trace',
    lines: [
      '`npx vf-rounds run` with nano-pages and `--preset laptop`: phase 1, buckets, a focused round on bucket A, supervised steps on its rare successes from the start of that round, and the next round from their',
      `adapter, on the prompts that are still hard. The question is whether that start is better than the round's own on held-out questions of the page world that the own start answers at most ${HARD} of the time;`,
      'the hard ones are found with one set of draws and compared with another.',
      '',
      ...tableLines(
        ['seed', 'hard questions', 'start of round 1', 'start of round 2, after the supervised steps', 'steps', 'seconds'],
        loops.map(({ seed, hard, start, taught, steps, seconds }) => [seed, hard, shown(start), shown(taught), steps.length, seconds.toFixed(0)]),
      ),
      '',
      `The funnel of seed ${loops[0]!.seed}, as \`vf-rounds report\` prints it once every file agrees with its manifest:`,
      '',
      ...loops[0]!.funnel.trimEnd().split('\n'),
    ],
    chart: { title: 'the loop: mean reward of training batches', goals: [] },
    runs: loops.flatMap(({ runs }) => runs),
    records: loops.map(({ seed, seconds, hard, start, taught, steps }) => ({
      seed,
      seconds,
      hard,
      start,
      taught,
      steps: steps.map(({ key, seconds: took }) => ({ key, seconds: took })),
    })),
    verdicts: loops.flatMap((loop) => judgeLoop(loop, options)),
  };
}

function judgeLoop({ seed, start, taught, steps, runs, funnel }: Loop, { quick }: ProofOptions): Verdict[] {
  const label = `seed ${seed}`;
  const moved = `held-out hard questions ${start.value.toFixed(3)} → ${taught.value.toFixed(3)}`;
  const adapter = steps.find(({ key }) => key === '1/sft')?.adapter ?? null;
  const next = steps.find(({ key }) => key === '2/focused')?.run ?? null;
  const config = next === null ? '' : readRegularFileSync(join(resolve(ROOT, next), 'config.toml'));
  return [
    quick
      ? { ok: taught.value > start.value, text: `${label}: ${moved}; the supervised start must be better` }
      : {
          ok: taught.low > start.high,
          text: `${label}: ${moved}; the intervals must not touch (${taught.low.toFixed(3)} above ${start.high.toFixed(3)})`,
        },
    { ok: adapter !== null && config.includes(adapter), text: `${label}: the next round starts from the adapter of the supervised steps` },
    { ok: runs.length >= 3, text: `${label}: ${steps.length} steps, ${runs.length} trainings with rollouts; at least 3` },
    // The report checks every file against its manifest, and fails otherwise.
    {
      ok: STAGES.every((stage) => funnel.includes(stage)),
      text: `${label}: the chain of manifests is whole, and its report has ${STAGES.join(', ')}`,
    },
  ];
}

async function closeLoop(seed: number, { quick, settings, runs: output }: ProofOptions): Promise<Loop> {
  const folder = join(output, `loop-seed-${seed}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const config = join(folder, 'rounds.toml');
  writeFileSync(config, roundsToml(folder, { seed, quick, settings }));
  const startedAtMs = performance.now();
  await own('vf-rounds', ['run', config]);
  const seconds = (performance.now() - startedAtMs) / 1000;
  const { steps } = JSON.parse(readRegularFileSync(join(folder, 'rounds/state.json'))) as { steps: Step[] };
  const adapterOf = (key: string) => steps.find((step) => step.key === key)?.adapter ?? 'nano-pages';
  const [examples, draws] = quick ? [40, 2] : [120, 4];
  const measured = await evaluated(adapterOf('1/phase1'), { folder, seed: 100 + seed, dataset: 'page-world', examples, draws });
  const hard = join(folder, 'hard.jsonl');
  await own('vf-rounds', [
    'focus',
    '--trace',
    join(measured.directory, 'trace.jsonl'),
    '--rows',
    join(ROOT, ROWS, 'test.jsonl'),
    '--threshold',
    String(HARD),
    '-o',
    hard,
  ]);
  const onHard = { folder, seed: 200 + seed, dataset: hard, examples: -1, draws };
  const start = await evaluated(adapterOf('1/phase1'), onHard);
  const taught = await evaluated(adapterOf('1/sft'), onHard);
  const funnel = await own('vf-rounds', ['report', join(folder, 'rounds'), '--markdown']);
  return {
    seed,
    seconds,
    steps,
    hard: readRegularFileSync(hard).trimEnd().split('\n').length,
    start: start.reward,
    taught: taught.reward,
    funnel,
    runs: await trainings(seed, steps),
  };
}

function roundsToml(
  folder: string,
  { seed, quick, settings }: { readonly seed: number; readonly quick: boolean; readonly settings: readonly string[] },
): string {
  const flags = ['--preset', 'laptop', '--seed', String(seed), '--set', 'evaluation.every=0', ...setFlags(settings)];
  const steps = quick ? 3 : 6;
  return [
    'environment = "visual-rag"',
    'rows = "page-world"',
    'rounds = 2',
    `output = ${JSON.stringify(join(folder, 'rounds'))}`,
    `flags = ${JSON.stringify(flags)}`,
    'arguments = { pages = "page-world" }',
    '[phase1]',
    `flags = ["--steps", "${steps}"]`,
    'arguments = { phase = 1 }',
    '[focused]',
    `flags = ["--steps", "${steps}"]`,
    '[focus]',
    `threshold = ${HARD}`,
    '[sft]',
    'flags = ["--set", "sft.epochs=3", "--set", "sft.learning_rate=1e-3"]',
    '',
  ].join('\n');
}

interface Evaluation {
  readonly folder: string;
  readonly seed: number;
  readonly dataset: string;
  readonly examples: number;
  readonly draws: number;
}

async function evaluated(
  adapter: string,
  { folder, seed, dataset, examples, draws }: Evaluation,
): Promise<{ readonly directory: string; readonly reward: Interval }> {
  const words = [
    'visual-rag',
    '-p',
    'embedded',
    '-m',
    adapter,
    '-a',
    JSON.stringify({ dataset, pages: 'page-world' }),
    '-n',
    String(examples),
    '-r',
    String(draws),
  ];
  const json = await own('vf-eval', [...words, '-T', '1', '--seed', String(seed), '--max-tokens', '64', '-o', join(folder, 'evals'), '--json']);
  return JSON.parse(json) as { directory: string; reward: Interval };
}

/** The trainings, for the plot. */
async function trainings(seed: number, steps: readonly Step[]): Promise<ProvenRun[]> {
  const played = steps.filter(({ run, key }) => run !== null && !key.endsWith('/sft'));
  return Promise.all(
    played.map(async ({ key, run, seconds, adapter }) => ({
      label: `visual-rag, loop ${key} seed ${seed}`,
      isControl: false,
      seconds,
      cpuSeconds: null,
      peakMemoryBytes: null,
      directory: resolve(ROOT, run!),
      adapter,
      rows: await readMetrics(join(resolve(ROOT, run!), 'metrics.jsonl')),
    })),
  );
}

/** Prints the name of the command first, because it may take minutes. */
function own(name: string, words: readonly string[]): Promise<string> {
  process.stdout.write(`\n${name} ${words.join(' ')}\n`);
  return runCommand(name, words);
}
