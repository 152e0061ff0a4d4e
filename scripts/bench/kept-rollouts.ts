/**
 * Measures the cost of keeping the rollouts of old steps: the time to compress a step and to thin it, and the bytes of a rollout before and after.
 *
 *     npm run bench -- kept-rollouts [RUN] [--json] [--strict]
 *
 * RUN is the folder of a finished run: its own rollouts are compressed again in a copy, against the wall clock of its steps. Without RUN, a step of 512 rollouts
 * of 2,000 tokens, half of them sampled by a model whose log-probs have no pattern, against a step of a minute. `--strict`: exit 1 over the bar.
 */
import { createReadStream, createWriteStream, readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { parseArgs } from 'node:util';
import { RolloutFiles } from '../../src/trainer/records/rollout-files.ts';
import { keptSteps, readKeptStep } from '../../src/trainer/records/kept-steps.ts';
import { trajectory } from '../../test/trainer/some-trajectories.ts';
import { isOver, type Measurement, measurement, report } from './measurement.ts';

const BAR = 0.02;
const MINUTE_S = 60;
const SYNTHETIC = { steps: 3, rollouts: 512, tokens: 2000 };

const { values, positionals } = parseArgs({ options: { json: { type: 'boolean' }, strict: { type: 'boolean' } }, allowPositionals: true });
const [run] = positionals;
const folder = await mkdtemp(join(tmpdir(), 'vf-kept-'));
try {
  const stepSeconds = run === undefined ? await synthesize() : await copy(run);
  const store = new RolloutFiles(folder);
  const steps = (await keptSteps(folder)).length;
  let rollouts = 0;
  for (const step of await keptSteps(folder)) rollouts += (await readKeptStep(step)).length;
  const live = await size();
  const packing = await seconds(() => store.archiveBefore(Infinity, Infinity));
  const whole = await size();
  // Every step loses its tokens, and none is left out: the bound is above the size of thin files.
  const thinning = await seconds(async () => {
    for (let bound = whole * 0.98; ; bound *= 0.98) if ((await store.archiveBefore(Infinity, bound)).removed > 0 || (await allThin())) break;
  });
  const thin = await size();
  const bytes = (what: string, ours: number, peer: number, against: string): Measurement =>
    measurement({ what, unit: 'B', against, bar: null }, [{ ours: ours / rollouts, peer: peer / rollouts }]);
  const time = (what: string, ours: number, bar: number | null) =>
    measurement({ what, unit: 's', against: run === undefined ? 'a step of a minute' : 'the median step', bar }, [
      { ours: ours / steps, peer: stepSeconds },
    ]);
  const packed = time(`compressing a step of ${Math.round(rollouts / steps)} rollouts`, packing, BAR);
  report([
    packed,
    time('thinning a step', thinning, null),
    bytes('a rollout, compressed', whole, live, 'as it was written'),
    bytes('a rollout, thinned', thin, live, 'as it was written'),
  ]);
  if (values.strict && isOver(packed)) process.exitCode = 1;
} finally {
  await rm(folder, { recursive: true });
}

async function allThin(): Promise<boolean> {
  return (await keptSteps(folder)).every(({ kept }) => kept === 'thin');
}

async function size(): Promise<number> {
  const sizes = await Promise.all((await readdir(folder)).map(async (name) => (await stat(join(folder, name))).size));
  return sizes.reduce((sum, each) => sum + each, 0);
}

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) / 1000;
}

/** Copies the rollouts as they were written. Resolves with the run's median step in seconds. */
async function copy(directory: string): Promise<number> {
  for (const { path, kept } of await keptSteps(join(directory, 'rollouts'))) {
    if (kept === 'thin') continue;
    const name = path.split('/').at(-1)!.replace(/\.gz$/, '');
    const out = createWriteStream(join(folder, name));
    await (kept === 'live' ? pipeline(createReadStream(path), out) : pipeline(createReadStream(path), createGunzip(), out));
  }
  const rows = readFileSync(join(directory, 'metrics.jsonl'), 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as { kind: string; step_seconds?: number | null });
  const times = rows.flatMap(({ kind, step_seconds: time }) => (kind === 'step' && typeof time === 'number' ? [time] : [])).toSorted((a, b) => a - b);
  return times[Math.floor(times.length / 2)]!;
}

async function synthesize(): Promise<number> {
  const { steps, rollouts, tokens } = SYNTHETIC;
  const words = readFileSync(new URL('../../README.md', import.meta.url), 'utf8').split(/\s+/);
  const store = new RolloutFiles(folder);
  let state = 1;
  const random = () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
  for (let number = 1; number <= steps; number++) {
    await using step = await store.open(number);
    for (let i = 0; i < rollouts; i++) {
      // Frequent ids occur more often: the square of a uniform number.
      const ids = Int32Array.from({ length: tokens }, () => Math.floor(150_000 * random() ** 4));
      const targets = Int32Array.from({ length: tokens / 2 }, (_, at) => tokens / 2 + at);
      const logProbs = Float64Array.from(targets, () => Math.fround(Math.log(random())));
      const segments = [
        { kind: 'model' as const, text: Array.from({ length: 0.75 * tokens }, () => words[Math.floor(words.length * random() ** 2)]).join(' ') },
      ];
      step.add(trajectory(`${Math.floor(i / 8)}/${i % 8}`, { ids, promptLength: tokens / 2, targets, logProbs, segments }));
    }
    await step.complete(1);
  }
  return MINUTE_S;
}
