/**
 * The rollouts of a run, one file per step, or one per phase of a step if a source plays several. A finished rollout is written before anything else happens. A
 * closing line marks the step as complete, and only then is it trained on. So a killed run never trains on a batch twice and never resamples a recorded rollout.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { namesIn } from '../../files/if-there.ts';
import { ResultsError } from '../../core/errors.ts';
import type { AskedRecord } from '../../core/model.ts';
import { LineAppender, syncDirectory, writeError } from '../../files/json-lines.ts';
import { RolloutIds } from '../../files/rollout-ids.ts';
import { makeFolder } from '../../files/make-folder.ts';
import type { TraceFile } from '../../files/trace-file.ts';
import type { TraceRecord } from '../../rollouts/trace-records.ts';
import { parseWire } from '../../schemas/results.ts';
import { ClosingSchema, RestartSchema, type WireClosing, type WireRestart } from '../../schemas/training-records.ts';
import { rewardsPath, writePaidRewards } from './paid-rewards.ts';
import { recoverLines } from './recover-lines.ts';
import { advantagesPath, writeAdvantages } from './step-advantages.ts';
import { archiveRollouts, discardArchived, restoreRollouts, type Thinning } from './rollout-archive.ts';
import { askedPath, StepAsked } from './step-asked.ts';
import { isCompleteFile, readIds, stepName } from './step-file.ts';
import { parseTrajectory, trajectoryRecord } from './trajectory-record.ts';
import type { CreditedBatch } from '../credit.ts';
import type { Trajectory } from '../trajectory.ts';
import type { PhaseName, RolloutStore, StepRollouts } from '../trajectory-source.ts';
import { systemText } from '../../files/system-text.ts';

export interface RolloutFilesOptions {
  /** Removes secrets from written text. @default no change */
  readonly redact?: (text: string) => string;
  /** Rollouts call models by role: a file of these calls is next to that of each step. @default false */
  readonly asks?: boolean;
  /** Takes the events of each rollout. @default none */
  readonly trace?: TraceFile | null;
  /** The rollouts are of evaluations. @default false */
  readonly isEvaluation?: boolean;
}

export interface AddedRollouts {
  readonly rollouts: number;
  /** Sampled in those that finished. */
  readonly tokens: number;
}

const STEP_FILE = /^step-(\d{6}|[1-9]\d{6,})(?:\.([A-Za-z0-9-]+))?\.jsonl$/;
/** The calls of rollouts to models lie next to them under this phase's name. */
const ASKED = 'asked';
/** True if a phase of this name has a file that a resumed run finds again. */
export function isPhaseName(name: unknown): name is string {
  return typeof name === 'string' && /^[A-Za-z0-9-]+$/.test(name) && name !== ASKED;
}

export class RolloutFiles implements RolloutStore {
  readonly #directory: string;
  readonly #redact: (text: string) => string;
  readonly #asks: boolean;
  readonly #trace: TraceFile | null;
  readonly #isEvaluation: boolean;
  readonly #added = new Map<number, AddedRollouts>();

  constructor(directory: string, { redact = (text) => text, asks = false, trace = null, isEvaluation = false }: RolloutFilesOptions = {}) {
    this.#directory = directory;
    this.#redact = redact;
    this.#asks = asks;
    this.#trace = trace;
    this.#isEvaluation = isEvaluation;
  }

  /** Reads the file, repairs a torn end and opens it for appending. Throws ResultsError for an invalid line. Needs the run's lock. */
  async open(step: number, phase?: string): Promise<StepRollouts> {
    try {
      makeFolder(this.#directory);
    } catch (cause) {
      throw writeError(this.#directory, cause);
    }
    const path = this.#path(step, phase);
    const asked = this.#asks ? await StepAsked.open(askedPath(path), this.#redact) : null;
    const place = { step, phase, isEvaluation: this.#isEvaluation };
    const trace = this.#trace;
    const onTrace = trace === null ? () => {} : (records: readonly TraceRecord[]) => trace.add(place, records);
    const opened = await OpenStep.open(path, step, { redact: this.#redact, asked, onTrace, onAdded: (added) => this.#count(step, added) });
    if (!opened.isComplete) for (const outdated of [rewardsPath(path), advantagesPath(path)]) await remove(outdated);
    return opened;
  }

  /** What this process recorded of a step, all its phases and attempts together: the rest was on file. */
  added(step: number): AddedRollouts {
    return this.#added.get(step) ?? { rollouts: 0, tokens: 0 };
  }

  #count(step: number, { error, targets }: Trajectory): void {
    const { rollouts, tokens } = this.added(step);
    this.#added.set(step, { rollouts: rollouts + 1, tokens: tokens + (error === null ? targets.length : 0) });
  }

  /** Steps and phases whose `isComplete` would be true, ascending by step. Changes nothing; a file with a damaged line is not complete. */
  async complete(): Promise<PhaseName[]> {
    const found: PhaseName[] = [];
    for (const { step, phase } of await this.phases()) if (await isCompleteFile(this.#path(step, phase), step)) found.push({ step, phase });
    return found;
  }

  /** The ids of the rollouts that the file of a step or phase has; null if a line is damaged. Changes nothing. */
  recordedIds(step: number, phase?: string): Promise<ReadonlySet<string> | null> {
    return readIds(this.#path(step, phase));
  }

  /** Deletes the rollouts of a phase, which must not be open. Throws ResultsError if it cannot. */
  async discard(step: number, phase?: string): Promise<void> {
    const own = this.#path(step, phase);
    for (const path of [own, askedPath(own), rewardsPath(own), advantagesPath(own)]) await remove(path);
  }

  pay(paid: readonly Trajectory[], step: number, phase?: string): Promise<void> {
    return writePaidRewards(this.#path(step, phase), paid);
  }

  /** Keeps the advantages with which a step trained, if it has rollouts on file. */
  async credit(credited: CreditedBatch, step: number): Promise<void> {
    if ((await this.phases()).some((phase) => phase.step === step)) await writeAdvantages(advantagesPath(this.#path(step)), credited);
  }

  /** Keeps the rollouts of earlier steps in little space; see rollout-archive.ts. Throws ResultsError if it cannot. Needs the run's lock. */
  archiveBefore(step: number, maxBytes: number): Promise<Thinning> {
    return archiveRollouts(this.#directory, { before: step, maxBytes });
  }

  /** Makes archived rollouts of steps from `step` on usable again. Needs the run's lock. */
  restoreFrom(step: number): Promise<void> {
    return restoreRollouts(this.#directory, step);
  }

  /** Deletes the rollouts of earlier steps, the archived ones included. Throws as `discard` does. */
  async discardBefore(step: number): Promise<void> {
    for (const each of await this.phases()) if (each.step < step) await this.discard(each.step, each.phase);
    await discardArchived(this.#directory, step);
  }

  /** Steps and phases that have a file, complete or not, ascending by step. */
  async phases(): Promise<PhaseName[]> {
    return (await namesIn(this.#directory))
      .map((name) => STEP_FILE.exec(name))
      .filter((parts) => parts !== null && parts[2] !== ASKED)
      .map((parts) => ({ step: Number(parts![1]), phase: parts![2] }))
      .toSorted((a, b) => a.step - b.step);
  }

  #path(step: number, phase?: string): string {
    return join(this.#directory, `${stepName(step)}${phase === undefined ? '' : `.${phase}`}.jsonl`);
  }
}

async function remove(path: string): Promise<void> {
  await rm(path, { force: true }).catch((cause: Error) => {
    throw new ResultsError(`Cannot delete the old rollouts ${path}: ${systemText(cause)}`, { cause });
  });
}

interface Writing {
  readonly redact: (text: string) => string;
  /** Null if no rollout calls a model. */
  readonly asked: StepAsked | null;
  readonly onTrace: (records: readonly TraceRecord[]) => void;
  readonly onAdded: (trajectory: Trajectory) => void;
}

class OpenStep implements StepRollouts {
  readonly step: number;
  readonly #directory: string;
  readonly #redact: (text: string) => string;
  readonly #file: LineAppender;
  readonly #asked: StepAsked | null;
  readonly #onTrace: (records: readonly TraceRecord[]) => void;
  readonly #onAdded: (trajectory: Trajectory) => void;
  readonly #byId: Map<string, Trajectory>;
  readonly #lines: Map<string, number>;
  #closing: WireClosing | null;
  #isOpen = true;

  private constructor(
    step: number,
    directory: string,
    { redact, asked, onTrace, onAdded, file, found }: Writing & { readonly file: LineAppender; readonly found: Found },
  ) {
    this.step = step;
    this.#directory = directory;
    this.#redact = redact;
    this.#file = file;
    this.#asked = asked;
    this.#onTrace = onTrace;
    this.#onAdded = onAdded;
    this.#byId = found.byId;
    this.#lines = found.lines;
    this.#closing = found.closing;
  }

  static async open(path: string, step: number, writing: Writing): Promise<OpenStep> {
    const found = await readStep(path);
    return new OpenStep(step, join(path, '..'), { ...writing, found, file: await LineAppender.open(path) });
  }

  get recorded(): readonly Trajectory[] {
    return [...this.#byId.values()];
  }

  get isComplete(): boolean {
    return this.#closing !== null && this.#closing.step === this.step && this.#closing.rollouts === this.#byId.size;
  }

  get attempts(): number {
    return this.isComplete ? this.#closing!.attempts : [...this.#lines.values()].reduce((most, count) => Math.max(most, count), 0);
  }

  get version(): number | null {
    return this.isComplete ? (this.#closing!.version ?? null) : null;
  }

  add(trajectory: Trajectory, asked: readonly AskedRecord[] = [], trace: readonly TraceRecord[] = []): void {
    this.#assertOpen();
    this.#asked?.add(trajectory.rolloutId, asked);
    this.#onTrace(trace);
    this.#file.append([JSON.stringify(trajectoryRecord(trajectory, this.#redact))]);
    this.#byId.set(trajectory.rolloutId, trajectory);
    this.#lines.set(trajectory.rolloutId, (this.#lines.get(trajectory.rolloutId) ?? 0) + 1);
    this.#closing = null;
    this.#onAdded(trajectory);
  }

  restart(): void {
    this.#assertOpen();
    const line: WireRestart = { restarted: true, step: this.step };
    this.#file.append([JSON.stringify(line)]);
    this.#byId.clear();
  }

  async complete(attempts: number, version?: number): Promise<void> {
    this.#assertOpen();
    const closing: WireClosing = {
      complete: true,
      step: this.step,
      attempts,
      rollouts: this.#byId.size,
      ...(version === undefined ? {} : { version }),
    };
    this.#file.append([JSON.stringify(closing)]);
    // Closing the file syncs it to disk.
    this.#isOpen = false;
    await this.#asked?.close();
    await this.#file.close();
    await syncDirectory(this.#directory);
    this.#closing = closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#asked?.close();
    await this.#file.close();
  }

  #assertOpen(): void {
    if (!this.#isOpen || this.isComplete) {
      throw new ResultsError(`The rollouts of step ${this.step} are complete or closed; open the step again, or train on its rollouts`);
    }
  }
}

interface Found {
  readonly byId: Map<string, Trajectory>;
  /** Number of lines by rollout id. */
  readonly lines: Map<string, number>;
  /** The last line, if it is a closing line. */
  readonly closing: WireClosing | null;
}

async function readStep(path: string): Promise<Found> {
  const byId = new Map<string, Trajectory>();
  const lines = new Map<string, number>();
  const ids = new RolloutIds(path);
  let closing: WireClosing | null = null;
  await recoverLines<Trajectory | WireClosing | WireRestart>(path, {
    parse: (text) => {
      if (text.startsWith('{"complete"')) return parseWire(ClosingSchema, text);
      return text.startsWith('{"restarted"') ? parseWire(RestartSchema, text) : parseTrajectory(text);
    },
    visit: (value, line) => {
      closing = 'complete' in value ? value : null;
      if ('restarted' in value) for (const each of [byId, ids]) each.clear();
      if ('complete' in value || 'restarted' in value) return;
      // A stream plays a group again whose version is too old.
      if (!ids.isNew(value.rolloutId, line, { isFinal: value.error === null, version: value.policy.version })) return;
      byId.set(value.rolloutId, value);
      lines.set(value.rolloutId, (lines.get(value.rolloutId) ?? 0) + 1);
    },
    expected: 'a rollout of a training step',
    remedy: 'delete that line; the run samples missing rollouts again when it resumes',
  });
  return { byId, lines, closing };
}
