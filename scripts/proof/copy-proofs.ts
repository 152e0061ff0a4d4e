/** The subjects of `npm run prove copy`: environments that the model has never seen, their makers and their bars. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { writeStrangeWorld } from './strange-world.ts';
import { ROOT, worldSettings } from './train-once.ts';

export const PRESET = 'laptop-copy';
/** The limit for a run, with Node alone on two idle cores. */
export const SECONDS = 120;

export interface CopyProof {
  readonly name: 'one-hop' | 'two-hops' | 'notes';
  readonly about: string;
  /** Its name in metrics.jsonl. */
  readonly metric: string;
  /** Held-out share of right answers: at most `start` before training, at least `end` after it. */
  readonly start: number;
  readonly end: number;
  readonly quickSteps: number;
  /** At least this after `quickSteps`. */
  readonly quickEnd: number;
  /** Makes the environment in a new folder; returns the arguments of vf-train. */
  readonly make: (folder: string, seed: number) => readonly string[];
}

export const COPY_PROOFS: readonly CopyProof[] = [
  {
    name: 'one-hop',
    about: 'search-r1 on questions about subjects, relations and objects whose names pre-training cannot contain',
    metric: 'rubric/em',
    start: 0.15,
    end: 0.6,
    quickSteps: 8,
    quickEnd: 0.3,
    make: (folder, seed) => strange(folder, seed, 1, []),
  },
  {
    name: 'two-hops',
    about: 'search-r1 on questions that name neither the passage with the answer nor its subject: search, read, search again',
    metric: 'rubric/em',
    start: 0.05,
    end: 0.5,
    quickSteps: 12,
    quickEnd: 0.1,
    // The start is near its bar, so there are enough rollouts to decide.
    make: (folder, seed) => strange(folder, seed, 2, ['evaluation.rollouts_per_example=16']),
  },
  {
    name: 'notes',
    about: 'an environment as `vf-init notes --tools` writes it: English questions, native tool calls, the answer stands in the reply of the tool',
    metric: 'rubric/exactMatch',
    start: 0.2,
    end: 0.8,
    quickSteps: 8,
    quickEnd: 0.3,
    make: (folder) => {
      // The folder that `npm install vf-search` would put there.
      mkdirSync(join(folder, 'node_modules'), { recursive: true });
      symlinkSync(ROOT, join(folder, 'node_modules/vf-search'));
      const { status } = spawnSync(process.execPath, [join(ROOT, 'bin/vf-init.js'), 'notes', '--tools'], {
        cwd: folder,
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      if (status !== 0) throw new Error(`vf-init ended with ${status}.`);
      return [join(folder, 'environments/notes'), '--set', 'evaluation.rollouts_per_example=32'];
    },
  },
];

function strange(folder: string, seed: number, hops: 1 | 2, settings: readonly string[]): string[] {
  writeStrangeWorld(folder, { seed, hops });
  return ['search-r1', ...[...worldSettings(folder), ...settings].flatMap((setting) => ['--set', setting])];
}
