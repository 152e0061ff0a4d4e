/** Runs with a fault, or a kill, at the n-th publish, checkpoint or evaluation. Resumed, each has to end as one that had none. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import type { GradientBackend } from '../../../src/trainer/gradient-backend.ts';
import { smallCommand, type SmallProcessOptions } from '../small-process.ts';
import { finalAdapter, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';

const CONFIG = { steps: 3, evaluation: { every: 1, examples: 2 }, checkpoint: { every: 1, keep: 2 } };
const FAIL_AT = join(import.meta.dirname, '../../cli/train/fail-at.mjs');

export type Place = 'publish' | 'checkpoint' | 'evaluation';

/** The places, with the least number of faults, and of kills, that a run has there. */
export const PLACES: readonly (readonly [place: Place, faults: number, kills: number])[] = [
  ['publish', 3, 3],
  ['checkpoint', 3, 3],
  ['evaluation', 8, 4],
];

/** The events of fail-at.mjs. */
const EVENTS: Readonly<Record<Place, string>> = {
  publish: '^writeFile .*/publishing$',
  checkpoint: '^rename .*/checkpoints/step-\\d+\\.\\d+\\.tmp',
  evaluation: '^open .*/evaluations/step-\\d+\\.jsonl',
};

interface Swept {
  readonly kind: NonNullable<SmallProcessOptions['backend']>;
  readonly open: () => Promise<GradientBackend>;
  /** The file of its adapters. */
  readonly file: string;
}

/** What every run ends with. */
interface Whole {
  readonly adapter: Buffer;
  readonly rows: Record<string, unknown>[];
}

export class FaultSweep {
  readonly #root: string;
  readonly #backend: Swept;
  readonly #whole: Whole;

  private constructor(root: string, backend: Swept, whole: Whole) {
    this.#root = root;
    this.#backend = backend;
    this.#whole = whole;
  }

  /** With a run that has no fault, below `root`. */
  static async open(root: string, backend: Swept): Promise<FaultSweep> {
    const path = await newRun(await mkdtemp(join(root, 'run-')));
    const outcome = await trainSmall(path, { backend: backend.open, config: CONFIG });
    return new FaultSweep(root, backend, { adapter: await finalAdapter(outcome, backend.file), rows: await rowsOf(path) });
  }

  async newRun(): Promise<string> {
    return newRun(await mkdtemp(join(this.#root, 'run-')));
  }

  /** Resumes the run, and asserts that it ends as the one without faults. */
  async expectWhole(path: string): Promise<void> {
    const outcome = await this.#train(path);
    const { reason, step, version } = outcome;
    assert.deepEqual({ reason, step, version }, { reason: 'finished', step: 3, version: 3 });
    assert.ok(this.#whole.adapter.equals(await finalAdapter(outcome, this.#backend.file)), 'the adapter has other weights');
    assert.deepEqual(await rowsOf(path), this.#whole.rows);
  }

  /** Runs with a fault at each moment of the place in turn. Resolves with their number. */
  async faults(place: Place): Promise<number> {
    for (let n = 1; ; n++) {
      const path = await this.newRun();
      const { options, hasFailed } = this.#failing(place, n);
      await this.#train(path, options).catch(() => {});
      if (!hasFailed()) return n - 1;
      await this.expectWhole(path);
    }
  }

  /** Runs that are killed at each moment of the place in turn. Resolves with their number. */
  async kills(place: Place): Promise<number> {
    for (let n = 1; ; n++) {
      const path = await this.newRun();
      if (!(await this.isKilled(path, place, n))) return n - 1;
      await this.expectWhole(path);
    }
  }

  /** Kills a process of the run at the n-th such moment. False if it ended before. */
  async isKilled(path: string, place: Place, n: number): Promise<boolean> {
    const [node, ...rest] = smallCommand(path, { config: CONFIG, backend: this.#backend.kind });
    const env = { ...process.env, FAIL_AT: JSON.stringify({ match: EVENTS[place], from: n, how: 'kill' }) };
    const child = spawn(node, ['--import', FAIL_AT, ...rest], { stdio: 'ignore', env });
    const [, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    return signal === 'SIGKILL';
  }

  #train(path: string, options: Partial<SmallRunOptions> = {}) {
    return trainSmall(path, { backend: this.#backend.open, config: CONFIG, ...options });
  }

  /** Options of a run that fails at the n-th such moment, and whether it came. */
  #failing(place: Place, n: number): { readonly options: Partial<SmallRunOptions>; readonly hasFailed: () => boolean } {
    let seen = 0;
    let phase = '';
    const strike = () => {
      seen += 1;
      if (seen === n) throw new Error('a fault');
    };
    const options: Partial<SmallRunOptions> = {
      observer: { onPhase: (name) => void (phase = name) },
      backend: async () =>
        calling(await this.#backend.open(), (call) =>
          place === 'checkpoint' && phase === 'checkpoint' && call === 'saveState' ? strike() : undefined,
        ),
      onTurn: () => (place === 'evaluation' && phase === 'evaluation' ? strike() : undefined),
      session: (made) => {
        if (place === 'publish') made.publisher.before = async () => strike();
        return made;
      },
    };
    return { options, hasFailed: () => seen >= n };
  }
}

/** The backend, with something that is called before each of its methods. */
function calling(backend: GradientBackend, before: (method: string) => void): GradientBackend {
  return new Proxy(backend, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return async (...args: unknown[]) => {
        before(String(name));
        return await Reflect.apply(value, target, args);
      };
    },
  });
}
