/**
 * Rollouts that another program sampled, in the form of `vf-export`, from a file or a stream: the run samples nothing. The rollouts of a step are recorded before
 * they are trained on, so that a resumed run repeats its steps even if the stream cannot be read again.
 */
import { cancelled, untilAborted } from '../../core/abort.ts';
import { ConfigError, TrainingError } from '../../core/errors.ts';
import { exportProblem, type RolloutExport, RolloutExportSchema } from '../../schemas/rollout-export.ts';
import { parseWire } from '../../schemas/results.ts';
import { SOURCE_PREFIX } from '../records/metrics.ts';
import { assertInVocabulary } from './assert-in-vocabulary.ts';
import { POLICY_ROLE, type Trajectory, turnsOnFile } from '../trajectory.ts';
import type { RolloutStore, TrajectoryBatch, TrajectorySource } from '../trajectory-source.ts';

export interface RolloutFileOptions {
  /** Name of the file or stream, for messages. */
  readonly name: string;
  /** Its lines. Called once. */
  readonly lines: () => AsyncIterable<string>;
  /** A resumed run gets the lines of its earlier steps again, as from a file, and reads past them; a stream goes on from its current place. */
  readonly startsOver: boolean;
  /** Steps before the first on rollouts: supervised ones take nothing from here. */
  readonly stepsBefore: number;
  /** Groups of a step. */
  readonly groupsPerStep: number;
  /** A group is complete with this many rollouts. When the input ends, a smaller group counts too. */
  readonly rolloutsPerGroup: number;
  readonly store: Pick<RolloutStore, 'open'>;
  /** Throws ConfigError for a role that the losses cannot train on. */
  readonly onRole: (role: string) => void;
  /** The temperature at which the trainer divides logits. Rollouts of another temperature are refused. */
  readonly temperature: number;
  /** Hash of the trained model's tokenizer; null if unknown. Rollouts of another tokenizer are refused. */
  readonly tokenizerHash: string | null;
  /** Token ids of the trained model are below it; null if unknown. */
  readonly vocabularySize: number | null;
  /** Rollouts of more tokens are left out: the model's window, Infinity if it is unknown. */
  readonly longest: number;
  /** Gets one line, about the first rollout that is left out. */
  readonly onLeftOut: (message: string) => void;
}

export class RolloutFileSource implements TrajectorySource {
  readonly #options: RolloutFileOptions;
  #groups: AsyncGenerator<readonly Trajectory[], void> | null = null;
  /** Groups read so far. */
  #read = 0;
  /** The next group is awaited. */
  #isReading = false;
  /** Rollouts left out so far. */
  #leftOut = 0;

  constructor(options: RolloutFileOptions) {
    this.#options = options;
  }

  async take(step: number, signal: AbortSignal): Promise<TrajectoryBatch> {
    const { store, groupsPerStep, stepsBefore, name, startsOver } = this.#options;
    await using record = await store.open(step);
    if (record.isComplete) return { trajectories: record.recorded };
    this.#groups ??= this.#readGroups();
    const earlier = startsOver ? (step - 1 - stepsBefore) * groupsPerStep : 0;
    const known = new Set(record.recorded.map(({ rolloutId }) => rolloutId));
    // A file can be read again; a stream cannot.
    const names = namesIn(startsOver ? [] : record.recorded);
    const before = this.#leftOut;
    while (names.groups.size < groupsPerStep) {
      const next = await untilAborted(this.#nextGroup(this.#groups), signal, () =>
        cancelled(signal, `Stopped while ${name} was read for step ${step}`),
      );
      if (next.done === true) {
        throw new TrainingError(
          `${name} ended before step ${step} had its groups of rollouts (${groupsPerStep}; it has ${this.#read} in all${this.#leftOut > 0 ? `, without ${this.#leftOut} rollouts that are longer than the model's window` : ''}); lower --steps, or give more rollouts and continue with -R`,
        );
      }
      if (++this.#read <= earlier) continue;
      for (const trajectory of withNamesOfItsOwn(next.value, names)) if (!known.has(trajectory.rolloutId)) record.add(trajectory);
    }
    await record.complete(1);
    const leftOut = this.#leftOut - before;
    return { trajectories: record.recorded, ...(leftOut > 0 ? { values: { [`${SOURCE_PREFIX}left_out`]: leftOut } } : {}) };
  }

  needsPolicy(): boolean {
    return false;
  }

  /** Closes the file. A stream that is still awaited ends with the process. */
  async close(): Promise<void> {
    if (!this.#isReading) await this.#groups?.return();
  }

  async #nextGroup(groups: AsyncGenerator<readonly Trajectory[], void>): Promise<IteratorResult<readonly Trajectory[], void>> {
    this.#isReading = true;
    const next = await groups.next();
    this.#isReading = false;
    return next;
  }

  async saveState(): Promise<void> {}

  async loadState(): Promise<void> {}

  async *#readGroups(): AsyncGenerator<readonly Trajectory[], void> {
    const { lines, rolloutsPerGroup, name, tokenizerHash, vocabularySize, temperature, onRole } = this.#options;
    const open = new Map<string, { readonly members: Trajectory[]; seen: number }>();
    let line = 0;
    for await (const text of lines()) {
      line++;
      if (text.trim() === '') continue;
      const place = `${name}:${line}`;
      const rollout = parsed(text, place);
      if (rollout.tokenizer_hash !== null && tokenizerHash !== null && rollout.tokenizer_hash !== tokenizerHash)
        throw new ConfigError(`${place} holds token ids of another tokenizer; export it again with the model that is trained`);
      assertInVocabulary(rollout.token_ids, vocabularySize, place);
      const sampledAt = (rollout.sampling as { temperature?: unknown }).temperature;
      if (typeof sampledAt === 'number' && sampledAt !== temperature)
        throw new ConfigError(
          `${place} was sampled at temperature ${sampledAt}, but rollouts.temperature is ${temperature}; set it to that of the rollouts`,
        );
      onRole(rollout.role ?? POLICY_ROLE);
      const group = open.get(rollout.group_id) ?? { members: [], seen: 0 };
      open.set(rollout.group_id, group);
      const trajectory = trajectoryOfExport(rollout, group.members.length);
      if (group.members.some((member) => isSameSample(member, trajectory)))
        throw new ConfigError(
          `${place} is the rollout ${rollout.rollout_id} again, with the same tokens; a group would count it twice. Remove one of the two lines`,
        );
      if (this.#isTaken(rollout, place)) group.members.push(trajectory);
      if (++group.seen < rolloutsPerGroup) continue;
      open.delete(rollout.group_id);
      if (group.members.length > 0) yield group.members;
    }
    for (const { members } of open.values()) if (members.length > 0) yield members;
  }

  #isTaken({ token_ids: ids }: RolloutExport, place: string): boolean {
    const { longest, onLeftOut } = this.#options;
    if (ids.length <= longest) return true;
    if (this.#leftOut++ === 0)
      onLeftOut(
        `${place} has ${ids.length} tokens: rollouts longer than the model's window of ${longest} are left out, and counted as ${SOURCE_PREFIX}left_out`,
      );
    return false;
  }
}

interface Names {
  readonly groups: Set<string>;
  readonly rollouts: Set<string>;
}

function namesIn(trajectories: readonly Trajectory[]): Names {
  return { groups: new Set(trajectories.map(({ groupId }) => groupId)), rollouts: new Set(trajectories.map(({ rolloutId }) => rolloutId)) };
}

/** A row that was played twice has its names twice in a step, but on file a name stands for one rollout, and rollouts are compared within a group. */
function withNamesOfItsOwn(group: readonly Trajectory[], { groups, rollouts }: Names): Trajectory[] {
  const groupId = unused(group[0]!.groupId, groups);
  return group.map((trajectory) => ({ ...trajectory, groupId, rolloutId: unused(trajectory.rolloutId, rollouts) }));
}

function unused(name: string, used: Set<string>): string {
  let own = name;
  for (let n = 2; used.has(own); n++) own = `${name}#${n}`;
  used.add(own);
  return own;
}

function parsed(text: string, place: string): RolloutExport {
  const wire = parseWire(RolloutExportSchema, text);
  const problem = 'problem' in wire ? wire.problem : exportProblem(wire.value);
  if ('value' in wire && problem === null) return wire.value;
  throw new ConfigError(`${place} is not a rollout in the form of vf-export: ${problem} (docs/results.md describes it)`);
}

function isSameSample(a: Trajectory, b: Trajectory): boolean {
  const isEqual = (own: ArrayLike<number> | null, other: ArrayLike<number> | null) =>
    own?.length === other?.length && Array.from(own ?? []).every((value, at) => value === other![at]);
  return a.rolloutId === b.rolloutId && isEqual(a.ids, b.ids) && isEqual(a.logProbs, b.logProbs);
}

function trajectoryOfExport(rollout: RolloutExport, index: number): Trajectory {
  const { token_ids: ids, loss_mask: mask, logprobs, policy } = rollout;
  const targets = Int32Array.from(ids.keys()).filter((at) => mask[at] === 1);
  return {
    rolloutId: rollout.rollout_id,
    groupId: rollout.group_id,
    index,
    role: rollout.role ?? POLICY_ROLE,
    task: rollout.task ?? null,
    reward: rollout.reward + 0,
    metrics: rollout.metrics,
    error: null,
    stop: rollout.stop_condition,
    isTruncated: rollout.is_truncated,
    isCut: false,
    turns: rollout.turn_tokens?.length ?? rollout.segments.filter(({ kind }) => kind === 'model').length,
    policy,
    usage: { inputTokens: ids.length - targets.length, outputTokens: targets.length, cachedTokens: null },
    ids: Int32Array.from(ids),
    promptLength: rollout.prompt_length,
    targets,
    logProbs: Float64Array.from(targets, (at) => logprobs[at]!),
    ...turnsOnFile(rollout),
    segments: [],
  };
}
