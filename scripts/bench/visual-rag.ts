/**
 * visual-rag against its limits, which are peers here: CPU from a page to a crop that is encoded and in the store, opening the bundled deck, and `vf-eval visual-rag
 * -n 20` from start to end. CPU times, so that other work on the machine does not count; the command's wall clock too. Needs `npm run build`, Linux and python3.
 * `node --conditions=vf-search-source scripts/bench/visual-rag.ts [--runs 3] [--json]`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import sharp from 'sharp';
import { Random } from 'vf-search';
import { bundledFolder } from 'vf-search/environment-kit';
import { loadEnvironment } from 'vf-search/environments/visual-rag';
import { Pictures } from '../../environments/visual-rag/pictures.ts';
import { RunImages } from '../../src/files/run-images.ts';
import { commandCost } from './command-cost.ts';
import { measurement, type Measurement, report } from './measurement.ts';

const CROPS = 200;
const PICTURE_MS = 25;
const OPEN_S = 0.3;
const COMMAND_S = 5;

/** Compares with the promise: the ratio is the share of it that is used. */
function within(what: string, unit: string, values: readonly number[], limit: number): Measurement {
  return measurement(
    { what, unit, against: 'promised', bar: 1 },
    values.map((ours) => ({ ours, peer: limit })),
  );
}

async function cpuMs(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e3;
}

/** Milliseconds of a crop that was not made before. */
async function pictureMs(seed: number): Promise<number> {
  const pictures = await Pictures.open(join((await bundledFolder('deck-mini'))!, 'pages'), new RunImages());
  const { signal } = new AbortController();
  const random = Random.fromSeed(seed);
  const below = (most: number) => Math.floor(random.float() * most);
  const crops = Array.from({ length: CROPS }, () => {
    const [left, top] = [below(500), below(400)];
    const area = [left, top, left + 100 + below(400), top + 100 + below(250)] as const;
    return { page: `deck_${1 + below(8)}_${1 + below(9)}`, area, size: { width: 616, height: 504 } };
  });
  // The first one loads the decoder.
  await pictures.picture({ ...crops[0]!, size: { width: 28, height: 28 } }, signal);
  return (
    (await cpuMs(async () => {
      for (const crop of crops) await pictures.picture(crop, signal);
    })) / CROPS
  );
}

async function openS(): Promise<number> {
  return (await cpuMs(async () => (await loadEnvironment()).close())) / 1e3;
}

const { values } = parseArgs({ options: { runs: { type: 'string', default: '3' }, json: { type: 'boolean' } } });
const runs = Array.from({ length: Number(values.runs) }, (_, i) => i);
const scratch = mkdtempSync(join(tmpdir(), 'vf-bench-'));
// On one core, as in the limit.
sharp.concurrency(1);
try {
  const opened: number[] = [];
  for (const _ of runs) opened.push(await openS());
  const drawn: number[] = [];
  for (const run of runs) drawn.push(await pictureMs(run));
  const program = join(import.meta.dirname, '../../bin/vf-eval.js');
  const costs = runs.map((run) =>
    commandCost([process.execPath, program, 'visual-rag', '-n', '20', '--plain', '-o', join(scratch, String(run))], { env: {} }),
  );
  report([
    within('page, crop, encoded picture, CPU', 'ms', drawn, PICTURE_MS),
    within('deck-mini opens, CPU', 's', opened, OPEN_S),
    within(
      'vf-eval visual-rag -n 20, CPU',
      's',
      costs.map(({ cpu_s: seconds }) => seconds),
      COMMAND_S,
    ),
    within(
      'vf-eval visual-rag -n 20, wall clock',
      's',
      costs.map(({ wall_s: seconds }) => seconds),
      COMMAND_S,
    ),
  ]);
} finally {
  rmSync(scratch, { recursive: true });
}
