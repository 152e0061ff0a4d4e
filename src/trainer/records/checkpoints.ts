/**
 * Checkpoints: states from which a run can continue, one folder each, with `state/` and `adapter/` from the gradient backend and `checkpoint.json` with
 * the size and SHA-256 of every file, itself included. A folder is written under a temporary name and renamed once all of it is on disk, so a final name
 * means a complete checkpoint; the sums detect later damage.
 */
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { namesIn } from '../../files/if-there.ts';
import { describeError, ResultsError, TrainingError } from '../../core/errors.ts';
import { endsBackend } from '../gradient-backend.ts';
import { isDiskFull } from '../../files/disk-full.ts';
import { syncDirectory } from '../../files/json-lines.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { temporaryName } from '../../files/temporary-names.ts';
import type { WireCheckpoint } from '../../schemas/training-records.ts';
import { readManifest, writeManifest } from './checkpoint-manifest.ts';
import { stepName } from './step-file.ts';
import { systemText } from '../../files/system-text.ts';

/** The loop's own state. */
export interface CheckpointContent {
  /** Steps finished. */
  readonly step: number;
  /** Version of the policy. */
  readonly version: number;
  /** The name that the policy was last published under. */
  readonly model: string;
  /** The loop's own counts: finite numbers by name. */
  readonly counters: Readonly<Record<string, number>>;
}

export interface Checkpoint extends CheckpointContent {
  /** Absolute if the store's is. */
  readonly directory: string;
  /** For `GradientBackend.loadState`. */
  readonly stateDirectory: string;
  /** A PEFT directory. */
  readonly adapterDirectory: string;
}

export interface CheckpointsOptions {
  /** Called for every damaged checkpoint that is skipped. @default ignored */
  readonly onDamage?: (note: string) => void;
}

/** The second and later checkpoints of a step have a number after the dot: a name is never reused. */
const NAME = /^step-(\d{6,})(?:\.(\d+))?$/;
const TEMPORARY = '.tmp';

interface Place {
  readonly name: string;
  readonly step: number;
  readonly take: number;
}

export class Checkpoints {
  readonly #directory: string;
  readonly #onDamage: (note: string) => void;
  readonly #damaged = new Set<string>();
  readonly #unusable = new Set<string>();

  /** Creates and changes nothing: for readers. */
  constructor(directory: string, { onDamage = () => {} }: CheckpointsOptions = {}) {
    this.#directory = directory;
    this.#onDamage = onDamage;
  }

  /** Creates the folder and removes partial checkpoints of killed processes. Needs the run's lock. */
  static async open(directory: string, options: CheckpointsOptions = {}): Promise<Checkpoints> {
    try {
      makeFolder(directory);
      for (const name of await readdir(directory)) if (name.endsWith(TEMPORARY)) await rm(join(directory, name), { recursive: true, force: true });
    } catch (cause) {
      throw new ResultsError(`Cannot open the checkpoint folder ${directory}: ${systemText(cause)}`, { cause });
    }
    return new Checkpoints(directory, options);
  }

  /**
   * Returns the newest checkpoint that is neither damaged nor marked as unusable; null if there are no others than unusable ones. Throws ResultsError if
   * all of them are damaged: restarting automatically would discard the training so far.
   */
  async latest(): Promise<Checkpoint | null> {
    for await (const checkpoint of this.whole()) return checkpoint;
    const places = await this.#usablePlaces();
    if (places.length === 0) return null;
    const [which, them] = places.length === 1 ? ['The only checkpoint', 'it'] : [`All ${places.length} checkpoints`, 'them'];
    throw new ResultsError(
      `${which} in ${this.#directory} ${places.length === 1 ? 'is' : 'are'} damaged. Restore one from a copy; or remove ${them}: -R then repeats the steps from the rollouts on file, on a CPU to the same weights`,
    );
  }

  /** The checkpoints that are neither damaged nor marked as unusable, newest first. */
  async *whole(): AsyncGenerator<Checkpoint> {
    for (const { name } of await this.#usablePlaces()) {
      const directory = join(this.#directory, name);
      const read = await readManifest(directory);
      if ('value' in read) yield checkpointOf(directory, read.value);
      else {
        this.#damaged.add(name);
        this.#onDamage(`Skipped the damaged checkpoint ${directory}: ${read.problem}`);
      }
    }
  }

  async #usablePlaces(): Promise<Place[]> {
    return (await this.#places()).filter(({ name }) => !this.#unusable.has(name));
  }

  /** Leaves this checkpoint out from now on, and deletes it with the next `prune`: no run can continue from its weights. */
  markUnusable({ directory }: Pick<Checkpoint, 'directory'>): void {
    this.#unusable.add(basename(directory));
  }

  /**
   * Lets `write` fill the folder that it is given (the backend's `saveState` into `state/`, `saveAdapter` into `adapter/`; neither exists yet) and makes
   * the checkpoint durable. Throws ResultsError if it cannot be written: earlier checkpoints are untouched and the run may continue. The errors of a
   * lost backend and of a cancellation are rethrown unchanged.
   */
  async save(content: CheckpointContent, write: (directory: string) => Promise<void>): Promise<Checkpoint> {
    const { step, counters } = content;
    const wrong = Object.entries(counters).find(([, value]) => !Number.isFinite(value));
    if (wrong) throw new TrainingError(`Checkpoint counter ${wrong[0]} must be finite, got ${wrong[1]}`);
    const base = stepName(step);
    const earlier = (await this.#places()).filter((place) => place.step === step);
    const name = earlier.length === 0 ? base : `${base}.${Math.max(...earlier.map(({ take }) => take)) + 1}`;
    const temporary = temporaryName(join(this.#directory, base));
    const directory = join(this.#directory, name);
    let manifest: WireCheckpoint;
    try {
      await rm(temporary, { recursive: true, force: true });
      await mkdir(temporary);
      await write(temporary);
      manifest = await writeManifest(temporary, content);
      await rename(temporary, directory);
      await syncDirectory(this.#directory);
    } catch (cause) {
      await rm(temporary, { recursive: true, force: true }).catch(() => {});
      if (endsBackend(cause)) throw cause;
      throw saveError(join(this.#directory, base), cause);
    }
    await this.#remove(earlier);
    return checkpointOf(directory, manifest);
  }

  /**
   * Deletes all but the newest `keep` checkpoints (0 keeps all), those that `latest` found damaged and those that are unusable. Returns the step of the oldest one kept, null if
   * there is none. Throws ResultsError if one cannot be deleted; the next call retries.
   */
  async prune(keep: number): Promise<number | null> {
    const places = await this.#places();
    const whole = places.filter(({ name }) => !this.#damaged.has(name) && !this.#unusable.has(name));
    const kept = keep === 0 ? whole : whole.slice(0, keep);
    await this.#remove(places.filter((place) => !kept.includes(place)));
    return kept.at(-1)?.step ?? null;
  }

  /** Newest first. */
  async #places(): Promise<Place[]> {
    return (await namesIn(this.#directory))
      .map((name) => ({ name, parts: NAME.exec(name) }))
      .filter(({ parts }) => parts !== null)
      .map(({ name, parts }) => ({ name, step: Number(parts![1]), take: Number(parts![2] ?? 1) }))
      .toSorted((a, b) => b.step - a.step || b.take - a.take);
  }

  /** Renames before deleting, so that a kill in between leaves no partial checkpoint. */
  async #remove(places: readonly Place[]): Promise<void> {
    for (const { name } of places) {
      const directory = join(this.#directory, name);
      const doomed = temporaryName(directory);
      try {
        await rename(directory, doomed);
        await rm(doomed, { recursive: true, force: true });
      } catch (cause) {
        throw new ResultsError(`Cannot delete the old checkpoint ${directory}: ${systemText(cause)}`, { cause });
      }
      this.#damaged.delete(name);
      this.#unusable.delete(name);
    }
  }
}

function checkpointOf(directory: string, { step, version, model, counters }: WireCheckpoint): Checkpoint {
  return { directory, stateDirectory: join(directory, 'state'), adapterDirectory: join(directory, 'adapter'), step, version, model, counters };
}

function saveError(path: string, cause: unknown): ResultsError {
  const remedy = isDiskFull(cause) ? 'the disk is full; free some space, or keep fewer checkpoints ([checkpoint] keep)' : describeError(cause);
  return new ResultsError(`Cannot write the checkpoint ${path}: ${remedy}. Earlier checkpoints are kept`, { cause });
}
