/**
 * Rollouts of the environment's training rows as a stream, for `rollouts.max_staleness` of 2 or more. Groups are begun in the seeded order of
 * the rows and go to the next step that has room in the order in which they end, so a long rollout does not hold up a step that others can fill.
 * A group is in its step's file before anything else happens to it; those that were being played are lost with a process.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { XStatic } from 'typebox/schema';
import { ifThere } from '../../files/if-there.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import { cancelled, untilAborted } from '../../core/abort.ts';
import { CallQueue } from '../../core/call-queue.ts';
import type { Row } from '../../core/dataset.ts';
import { ResultsError } from '../../core/errors.ts';
import { count, listOf, object } from '../../schemas/json-schema.ts';
import { parseWire } from '../../schemas/results.ts';
import type { RolloutsInMemory } from '../records/rollouts-in-memory.ts';
import type { TrainingEvent, TrainingObserver } from '../training-observer.ts';
import { checkPlayed } from './rollout-failures.ts';
import { type Place, RowCursor } from './row-cursor.ts';
import { StepGroups } from './step-groups.ts';
import { TrainedVersions } from './trained-versions.ts';
import type { SourceContext, TrajectoryBatch, TrajectorySource } from '../trajectory-source.ts';

export interface GroupPlan {
  readonly row: Row;
  /** The group's number in the stream, from 0: different groups of a row are sampled with different seeds. */
  readonly number: number;
  /** The number of its rollouts that may fail at the moment. */
  readonly allowedFailures: () => number;
}

export interface PlayedGroup {
  readonly rollouts: RolloutsInMemory['rollouts'];
  readonly failed: number;
  readonly attempts: number;
}

export interface StreamContext extends SourceContext {
  /** Plays the group of a row to its end. Throws as `play` does. */
  readonly playGroup: (plan: GroupPlan, signal: AbortSignal) => Promise<PlayedGroup>;
  /** Version of the trainer's weights, which the next step trains. */
  readonly version: () => number;
  readonly onRollouts: NonNullable<TrainingObserver['onRollouts']>;
  readonly report: (event: Omit<TrainingEvent, 'step'>) => void;
}

const FILE = 'rows.json';
const StateSchema = object({ next: count, open: listOf(count), versions: listOf(count) });

export class StreamedSource implements TrajectorySource {
  readonly #context: StreamContext;
  readonly #lastStep: number;
  readonly #cursor: RowCursor;
  /** Most groups that are played at once: twice as many as fill the slots, because the last rollout of a group leaves the other slots to the next. */
  readonly #mostPlayed: number;
  readonly #versions = new TrainedVersions();
  readonly #steps = new Map<number, StepGroups>();
  readonly #played = new Set<Promise<void>>();
  /** Groups find their step one after another, in the order in which they end. */
  readonly #turns = new CallQueue();
  readonly #stop = new AbortController();
  /** Failed rollouts of the groups that ended last. */
  readonly #failed: number[] = [];
  /** The last step that was taken; null before the first. */
  #taken: number | null = null;
  #failure: { readonly thrown: unknown } | null = null;
  #changed = Promise.withResolvers<void>();

  /** Throws ConfigError if the environment has fewer training rows than a step needs. */
  constructor(context: StreamContext, lastStep: number) {
    const { config, environment } = context;
    const { examplesPerStep, rolloutsPerExample, maxConcurrent } = config.rollouts;
    this.#context = context;
    this.#lastStep = lastStep;
    this.#cursor = new RowCursor(environment.train, { examplesPerStep, seed: config.seed });
    this.#mostPlayed = mostPlayed({ maxConcurrent, rolloutsPerExample });
  }

  async take(step: number, signal: AbortSignal): Promise<TrajectoryBatch> {
    const { version, config, onRollouts, report } = this.#context;
    const { examplesPerStep, rolloutsPerExample, maxRefills } = config.rollouts;
    this.#versions.add(version());
    if (this.#taken === null) await this.#begin(step);
    const groups = await this.#turns.run(() => this.#open(step));
    for (;;) {
      const changed = this.#changed.promise;
      const missing = groups.missing(version());
      onRollouts({
        step,
        done: (examplesPerStep - missing) * rolloutsPerExample,
        total: examplesPerStep * rolloutsPerExample,
        failed: groups.failed,
      });
      if (missing === 0) break;
      if (this.#failure !== null) throw this.#failure.thrown;
      this.#play(signal);
      await untilAborted(changed, signal, () => cancelled(signal, `Stopped while step ${step} was sampled`));
    }
    checkPlayed(groups.divide(version()).taken.flat(), { place: `step ${step}`, allowed: allowedFailures(config.rollouts), report });
    await this.#turns.run(async () => {
      await groups.complete(version());
      this.#taken = step;
      this.#steps.delete(step);
    });
    const { taken, dropped, refused, weighted, staleness } = groups.divide(version());
    await groups[Symbol.asyncDispose]();
    this.#cursor.finish(step);
    this.#play(signal);
    const values = { staleness, groups_stale: dropped.length + weighted, ...(maxRefills === 0 ? {} : { groups_refilled: refused.length }) };
    return { trajectories: taken.flat(), discarded: [...dropped, ...refused].flat(), attempts: groups.attempts, values };
  }

  /** Before a step, its weights also begin the groups of all later steps that may be sampled until it is trained. */
  needsPolicy(step: number): boolean {
    for (let each = step; each <= this.#horizon(step); each++) if (!this.#context.isRecorded(each)) return true;
    return false;
  }

  async saveState(directory: string): Promise<void> {
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, FILE), JSON.stringify({ ...this.#cursor.state, versions: this.#versions.state }));
  }

  async loadState(directory: string): Promise<void> {
    const path = join(directory, FILE);
    const text = await ifThere(path, readRegularFile);
    if (text === null) return;
    const parsed: { readonly value: XStatic<typeof StateSchema> } | { readonly problem: string } = parseWire(StateSchema, text);
    if ('problem' in parsed) throw new ResultsError(`${path} is invalid: ${parsed.problem}; resume from an earlier checkpoint`);
    this.#cursor.load(parsed.value);
    this.#versions.load(parsed.value.versions);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#played);
    await this.#turns.run(async () => {
      for (const groups of this.#steps.values()) await groups[Symbol.asyncDispose]();
      this.#steps.clear();
    });
  }

  /** Rows that later steps have on file are not played again. */
  async #begin(step: number): Promise<void> {
    this.#taken = step - 1;
    const found = new Set(
      (await this.#context.store.phases()).filter((each) => each.step >= step && each.phase === undefined).map((each) => each.step),
    );
    for (const each of found) {
      const groups = await this.#open(each);
      for (const groupId of groups.groupIds) this.#cursor.claim(groupId, each);
      if (!groups.isComplete) continue;
      // Its rollouts are read again when it is taken.
      await groups[Symbol.asyncDispose]();
      this.#steps.delete(each);
    }
  }

  async #open(step: number): Promise<StepGroups> {
    const opened = this.#steps.get(step);
    if (opened !== undefined) return opened;
    const groups = await StepGroups.open(this.#context.store, {
      step,
      ...this.#context.config.rollouts,
      rows: this.#context.environment.train.length,
      age: (sampled, trained) => this.#versions.age(sampled, trained),
    });
    this.#steps.set(step, groups);
    return groups;
  }

  /** The last step that may be sampled once `taken` is. */
  #horizon(taken: number): number {
    return Math.min(taken + this.#context.config.rollouts.maxStaleness, this.#lastStep);
  }

  /** The number of groups that the steps within reach lack. */
  #missing(): number {
    const { version, config, isRecorded } = this.#context;
    let missing = 0;
    for (let step = this.#taken! + 1; step <= this.#horizon(this.#taken!); step++) {
      if (!isRecorded(step)) missing += this.#steps.get(step)?.missing(version()) ?? config.rollouts.examplesPerStep;
    }
    return missing;
  }

  /** Begins groups: as many as steps within reach lack, and slots can play. */
  #play(signal: AbortSignal): void {
    const inner = AbortSignal.any([signal, this.#stop.signal]);
    while (!inner.aborted && this.#failure === null && this.#played.size < Math.min(this.#mostPlayed, this.#missing())) {
      const played = this.#playGroup(this.#cursor.begin(), inner).catch((thrown: unknown) => void (this.#failure ??= { thrown }));
      this.#played.add(played);
      void this.#playNext(played, signal);
    }
  }

  async #playNext(played: Promise<void>, signal: AbortSignal): Promise<void> {
    await played;
    this.#played.delete(played);
    this.#play(signal);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  async #playGroup({ number, row }: Place, signal: AbortSignal): Promise<void> {
    const { playGroup, config } = this.#context;
    const { examplesPerStep } = config.rollouts;
    const allowed = () => {
      const others = this.#failed.reduce((sum, failed) => sum + failed, 0);
      return Math.max(0, allowedFailures(config.rollouts) - others);
    };
    const group = await playGroup({ row, number, allowedFailures: allowed }, signal);
    this.#failed.push(group.failed);
    if (this.#failed.length >= examplesPerStep) this.#failed.shift();
    await this.#turns.run(() => this.#place(number, String(row.exampleId), group));
  }

  /** The next step that has room and does not have the row. */
  async #place(number: number, groupId: string, { rollouts, attempts }: PlayedGroup): Promise<void> {
    const { version, isRecorded } = this.#context;
    for (let step = this.#taken! + 1; step <= this.#lastStep; step++) {
      if (isRecorded(step)) continue;
      const groups = await this.#open(step);
      if (groups.has(groupId, version()) || groups.missing(version()) === 0) continue;
      groups.add(rollouts.values(), attempts);
      return this.#cursor.assign(number, step);
    }
    this.#cursor.forget(number);
  }
}

/** Rollouts of a step that may fail. */
function allowedFailures({ maxErrorRate, examplesPerStep, rolloutsPerExample }: SourceContext['config']['rollouts']): number {
  return Math.floor(maxErrorRate * examplesPerStep * rolloutsPerExample);
}

/** Groups that a stream plays at once. */
export function mostPlayed({ maxConcurrent, rolloutsPerExample }: { readonly maxConcurrent: number; readonly rolloutsPerExample: number }): number {
  return 2 * Math.ceil(maxConcurrent / rolloutsPerExample);
}
