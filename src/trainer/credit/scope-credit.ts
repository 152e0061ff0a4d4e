/**
 * Compares all rollouts of a batch that share a role and task, a role, or just the batch (REINFORCE++, arXiv 2501.03262; self-play), optionally with the
 * statistics of earlier batches, which the checkpoint holds. With scope `none` the reward itself is the advantage.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ResultsError } from '../../core/errors.ts';
import { byName, closed, number } from '../../schemas/json-schema.ts';
import { parseWire } from '../../schemas/results.ts';
import { isDemonstration, type Trajectory } from '../trajectory.ts';
import { byGroup, type Credit, type CreditedBatch, demonstration, type LogProbPass, trainingSequence, type TrainingSequence } from '../credit.ts';
import { type CreditConfig, GroupCredit } from './group-credit.ts';
import { creditable, penaltyValues, rewardPenalties } from './kl-penalty.ts';
import { decayMoments, type Moments, scopeAdvantages } from './scope-advantages.ts';

const FILE = 'credit.json';
const CONSTANT = {
  role_task: 'no two finished rollouts of the same role and task have different rewards',
  role: 'no two finished rollouts of the same role have different rewards',
  batch: 'no two finished rollouts of the batch have different rewards',
  none: 'every finished rollout has the reward 0',
  group: 'no group has two finished rollouts with different rewards',
} as const;
const size = { type: 'number', minimum: 0 } as const;
const StateSchema = byName(closed({ count: size, mean: number, squares: size }));

export class ScopeCredit implements Credit {
  readonly #config: CreditConfig;
  /** Moments of earlier batches, by scope; empty unless the decay is above 0. */
  #moments = new Map<string, Moments>();

  constructor(config: CreditConfig) {
    this.#config = config;
  }

  async assign(trajectories: readonly Trajectory[], pass: LogProbPass): Promise<CreditedBatch> {
    const { algorithm } = this.#config;
    const { scope } = algorithm.advantage;
    const demonstrations = trajectories.filter(isDemonstration);
    const played = byGroup(trajectories.filter((trajectory) => !isDemonstration(trajectory))).flat();
    const penalties = await rewardPenalties(played, algorithm, pass);
    const finished = creditable(played, penalties);
    const sequences = new Map<Trajectory, TrainingSequence>();
    const deviations: number[] = [];
    const scopes = Map.groupBy(finished, (trajectory) => scopeKey(scope, trajectory));
    let constant = 0;
    for (const [key, members] of scopes) {
      const credited = this.#credit(key, members, penalties);
      deviations.push(credited.std);
      if (credited.isConstant) constant++;
      // Equal rewards still inform if those of earlier batches differ.
      const informs = credited.sequences.some(({ advantages }) => advantages.some((advantage) => advantage !== 0));
      if (credited.isConstant && !informs && algorithm.constantGroups === 'drop') continue;
      members.forEach((member, i) => sequences.set(member, credited.sequences[i]!));
    }
    const groups = byGroup(finished).map((members) => members.flatMap((member) => sequences.get(member) ?? []));
    const values = {
      group_reward_std: deviations.length === 0 ? null : deviations.reduce((total, std) => total + std, 0) / deviations.length,
      groups: scopes.size,
      groups_constant: constant,
      groups_too_small: 0,
      sequences_dropped: played.filter(({ reward }) => reward !== null).length - finished.length,
      ...penaltyValues(penalties, algorithm),
    };
    const kept = groups.filter((members) => members.length > 0);
    return {
      groups: [...kept, ...demonstrations.map((row) => [demonstration(row)])],
      values: played.length === 0 ? {} : values,
      constantReason: CONSTANT[scope],
    };
  }

  async saveState(directory: string): Promise<void> {
    if (this.#moments.size > 0) await writeFile(join(directory, FILE), JSON.stringify(Object.fromEntries(this.#moments)));
  }

  async loadState(directory: string): Promise<void> {
    const path = join(directory, FILE);
    const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return '{}';
      throw new ResultsError(`Cannot read ${path}: ${error.message}`, { cause: error });
    });
    const parsed = parseWire(StateSchema, text);
    if ('problem' in parsed) throw new ResultsError(`${path} is invalid: ${parsed.problem}; resume from an earlier checkpoint`);
    this.#moments = new Map(Object.entries(parsed.value));
  }

  #credit(key: string, members: readonly Trajectory[], penalties: ReadonlyMap<Trajectory, Float64Array> | null) {
    const { algorithm, rollouts } = this.#config;
    const { scope, weighting, std, epsilon, decay } = algorithm.advantage;
    const sign = algorithm.negateAdvantages ? -1 : 1;
    const returns = members.map((member) => tokenReturns(member, penalties?.get(member) ?? null, weighting));
    const sequence = (member: Trajectory, advantages: Float64Array) => {
      const factor = sign * (member.staleWeight ?? 1);
      const signed = factor === 1 ? advantages : advantages.map((advantage) => factor * advantage);
      return trainingSequence(member, signed, rollouts.truncated);
    };
    const earlier = this.#moments.get(key) ?? null;
    const scored = returns.map((own, i) => (weighting === 'token' ? runs(own) : [{ reward: own[0]!, tokens: members[i]!.targets.length }]));
    const isMasked = members.map(({ isTruncated }) => rollouts.truncated === 'mask' && isTruncated);
    // A mean over tokens is taken over trained tokens: those of a masked rollout take no part in it, although their rewards are credited.
    const compared = scored.flatMap((own, i) => (isMasked[i] ? own.map(({ reward }) => ({ reward, tokens: 0 })) : own));
    const { advantages, moments, isConstant, std: deviation } = scopeAdvantages(compared, { weighting, std, epsilon }, earlier);
    if (scope === 'none') return { sequences: members.map((member, i) => sequence(member, returns[i]!)), std: deviation, isConstant: false };
    if (decay > 0) this.#moments.set(key, decayMoments(moments, decay));
    let at = 0;
    const sequences = members.map((member, i) => {
      const own = new Float64Array(member.targets.length);
      let from = 0;
      for (const { tokens } of scored[i]!) own.fill(advantages[at++]!, from, (from += tokens));
      return sequence(member, own);
    });
    return { sequences, std: deviation, isConstant };
  }
}

/**
 * The return of each token before the comparison, [M]: the reward minus the penalties from this token on (`token`, as in REINFORCE++), or minus
 * all of them. With `sequence` a rollout without tokens has one entry, so that its reward counts.
 */
function tokenReturns({ reward, targets }: Trajectory, penalties: Float64Array | null, weighting: 'sequence' | 'token'): Float64Array {
  const returns = new Float64Array(weighting === 'token' ? targets.length : Math.max(targets.length, 1)).fill(reward!);
  if (penalties === null) return returns;
  let later = 0;
  for (let t = targets.length - 1; t >= 0; t--) {
    later += penalties[t]!;
    returns[t]! -= later;
  }
  return weighting === 'token' ? returns : returns.fill(reward! - later);
}

/** Equal neighbours together: without penalties a rollout is one run. */
function runs(values: Float64Array): { reward: number; tokens: number }[] {
  const found: { reward: number; tokens: number }[] = [];
  for (const reward of values) {
    const last = found.at(-1);
    if (last?.reward === reward) last.tokens++;
    else found.push({ reward, tokens: 1 });
  }
  return found;
}

function scopeKey(scope: 'group' | 'role_task' | 'role' | 'batch' | 'none', { role, task }: Trajectory): string {
  if (scope === 'role_task') return JSON.stringify([role, task]);
  return scope === 'role' ? JSON.stringify([role]) : 'batch';
}

/** The credit assignment that `[algorithm.advantage]` describes. */
export function openCredit(config: CreditConfig): Credit {
  return config.algorithm.advantage.scope === 'group' ? new GroupCredit(config) : new ScopeCredit(config);
}
