/** Short runs of the preset laptop by the command vf-train, and what must hold of every one that ends. */
import { join } from 'node:path';
import { expect } from 'vitest';
import { finished, type RunFolder, TrainFolder, type TrainProcess } from '../../vllm/train-process.ts';

/** Evaluations of 8 of the 240 questions, every second step. */
const SHORT = {
  'evaluation.every': 2,
  'evaluation.examples': 8,
  'checkpoint.every': 2,
  'checkpoint.keep_rollouts': true,
  'rollouts.repeat_pause_s': 0,
};
const LAPTOP = [
  'search-r1',
  '--preset',
  'laptop',
  '-n',
  '2',
  '-o',
  '.',
  ...Object.entries(SHORT).flatMap(([key, value]) => ['--set', `${key}=${value}`]),
];
/** No program but Node can be called. */
export const ALONE = { PATH: '/nonexistent', VF_BASE_URL: '' };
/** Its engine's threads end at a signal. */
export const MORTAL = { ...ALONE, NODE_OPTIONS: `--import ${join(import.meta.dirname, 'end-a-thread.mjs')}` };

export interface Printed {
  readonly reason: string;
  readonly version: number;
  readonly adapter: string;
  readonly transcripts: string;
  readonly plots: readonly string[];
  readonly log_prob_difference: { readonly max: number };
}

/** A folder with the commands that were started in it. Disposing it ends them and removes it. */
export class LaptopRuns implements AsyncDisposable {
  readonly folder = new TrainFolder();
  readonly #started: TrainProcess[] = [];

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#started.map(({ kill }) => kill()));
    this.folder[Symbol.dispose]();
  }

  start(args: readonly string[], variables: Readonly<Record<string, string>> = ALONE): TrainProcess {
    const run = this.folder.start(args, variables);
    this.#started.push(run);
    return run;
  }

  begin(args: readonly string[] = [], variables?: Readonly<Record<string, string>>): TrainProcess {
    return this.start([...LAPTOP, ...args], variables);
  }

  /** Begins a run as `begin` does, in the process of the test, where it lasts to its end. */
  beginInProcess(args: readonly string[]): ReturnType<TrainFolder['runInProcess']> {
    return this.folder.runInProcess([...LAPTOP, ...args], ALONE);
  }

  resume(run: RunFolder, variables?: Readonly<Record<string, string>>): TrainProcess {
    return this.start(['-R', run.path], variables);
  }

  resumeInProcess(run: RunFolder): ReturnType<TrainFolder['runInProcess']> {
    return this.folder.runInProcess(['-R', run.path], ALONE);
  }

  reach(run: TrainProcess, claim: (is: RunFolder) => boolean): Promise<RunFolder> {
    return this.folder.reach(run, claim);
  }
}

/** What every finished run of `steps` steps holds, however often it was killed. */
export function expectWhole(run: RunFolder, steps: number): void {
  const all = Array.from({ length: steps }, (_, i) => i + 1);
  expect(run.steps()).toEqual(all);
  expect(run.rows('evaluation').map(({ step }) => step)).toEqual([0, ...all].filter((step) => step % 2 === 0 || step === steps));
  const rows = run.rows('step');
  expect(rows.map((row) => row['rollouts']! - row['rollouts_failed']!)).toEqual(all.map(() => 16));
  // The engine that samples and the one that trains give every token the same number, to the bit; weights that have changed since have others.
  const same = rows.filter((row) => row['staleness'] === 0);
  expect(same.length).toBeGreaterThan(0);
  expect(same.map((row) => row['log_prob_difference_max'])).toEqual(same.map(() => 0));
}

/** Trains on the recorded rollouts from the first step on, in one go. */
export async function expectReplay(runs: LaptopRuns, run: RunFolder): Promise<void> {
  const replay = runs.folder.replay(run);
  await finished<Printed>(runs.resumeInProcess(replay));
  expect(replay.arithmetic()).toEqual(run.arithmetic());
  expect(replay.adapterSum()).toBe(run.adapterSum());
}
