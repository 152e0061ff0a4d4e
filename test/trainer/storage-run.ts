/**
 * Writes to a run's folder in a process of its own, to be killed or to meet a full disk: `storage-run.ts rollouts|checkpoint <directory> <number>`.
 * Says on stderr what it has done, a line each, and prints the error that stopped it.
 */
import { mkdirSync, openSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { join } from 'node:path';
import { Checkpoints } from '../../src/trainer/records/checkpoints.ts';
import { RolloutFiles } from '../../src/trainer/records/rollout-files.ts';
import { trajectory } from './some-trajectories.ts';

const [what, directory, number] = process.argv.slice(2) as [string, string, string];
const say = (text: string) => void process.stderr.write(`${text}\n`);
const PIECE = Buffer.alloc(1 << 16, 'w');

/** Adds rollouts `from`, `from` + 1, ... of step 7 until it is killed. */
async function rollouts(from: number): Promise<void> {
  await using step = await new RolloutFiles(directory).open(7);
  for (let i = from; i < from + 5000; i++) {
    step.add(trajectory(`${i}/0`, { ids: new Int32Array(2000).fill(i), segments: [{ kind: 'model', text: 'x'.repeat(i % 5000) }] }));
    say(`added ${i}`);
    if (i % 20 === 0) await sleep(1);
  }
}

/** Saves step 10 of two pieces, then step 20 of `pieces`. */
async function checkpoint(pieces: number): Promise<void> {
  const checkpoints = await Checkpoints.open(directory);
  const content = { version: 1, model: 'policy', counters: { rows: 4 } };
  if ((await checkpoints.latest()) === null) await checkpoints.save({ ...content, step: 10 }, (folder) => fill(folder, 2));
  say('saved 10');
  await checkpoints.save({ ...content, step: 20 }, (folder) => fill(folder, pieces));
  say('saved 20');
}

async function fill(folder: string, pieces: number): Promise<void> {
  for (const name of ['state', 'adapter']) {
    mkdirSync(join(folder, name));
    const file = openSync(join(folder, name, 'tensors.bin'), 'w');
    for (let i = 0; i < pieces; i++) {
      writeSync(file, PIECE);
      say(`wrote ${name} ${i}`);
      await sleep(1);
    }
  }
}

try {
  await (what === 'rollouts' ? rollouts(Number(number)) : checkpoint(Number(number)));
} catch (error) {
  process.stdout.write(JSON.stringify({ name: (error as Error).name, message: (error as Error).message }));
}
