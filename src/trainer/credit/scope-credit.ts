/**
 * Compares all rollouts of a batch that share a role and task, a role, or just the batch (REINFORCE++, arXiv 2501.03262; self-play), optionally with the
 * statistics of earlier batches, which the checkpoint holds. With scope `none` the reward itself is the advantage. A rollout counts once in each scope, whatever its number of
 * branches: those with roles of their own (where the scope reads roles), or with rewards of their own, are compared one by one and share its weight.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ifThere } from '../../files/if-there.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import { ResultsError } from '../../core/errors.ts';
import { byName, closed, number } from '../../schemas/json-schema.ts';
import { parseWire } from '../../schemas/results.ts';
import type { Credit, CreditAssignment, CreditBatch } from '../credit.ts';
import { hasBranchRewards, hasBranchRoles } from '../trajectory-branches.ts';
import { type CreditPart, PartAdvantages, populations } from './credit-parts.ts';
import { type CreditConfig, meanOrNull, scopeKey } from './group-credit.ts';
import { decayMoments, type Moments, scopeAdvantages, type ScopeMember } from './scope-advantages.ts';

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
  readonly needs = { penalties: true };
  readonly #config: CreditConfig;
  /** Moments of earlier batches, by scope; empty unless the decay is above 0. */
  #moments = new Map<string, Moments>();

  constructor(config: CreditConfig) {
    this.#config = config;
  }

  assign({ groups }: CreditBatch): CreditAssignment {
    const { algorithm } = this.#config;
    const { scope } = algorithm.advantage;
    const advantages = new PartAdvantages();
    const deviations: number[] = [];
    const isByRole = scope === 'role' || scope === 'role_task';
    const scopes = populations(
      groups.flat(),
      ({ trajectory }) => hasBranchRewards(trajectory) || (isByRole && hasBranchRoles(trajectory)),
      (of) => scopeKey(scope, of),
    );
    let constant = 0;
    for (const [key, members] of scopes) {
      const credited = this.#credit(key, members);
      deviations.push(credited.std);
      if (credited.isConstant) constant++;
      // Equal rewards still inform if those of earlier batches differ.
      const informs = credited.advantages.some((own) => own.some((advantage) => advantage !== 0));
      if (credited.isConstant && !informs && algorithm.constantGroups === 'drop') continue;
      members.forEach((member, i) => advantages.set(member, credited.advantages[i]!));
    }
    return {
      advantages: groups.map((members) => members.map((member) => advantages.of(member))),
      values: { group_reward_std: meanOrNull(deviations), groups: scopes.size, groups_constant: constant, groups_too_small: 0 },
      constantReason: CONSTANT[scope],
    };
  }

  async saveState(directory: string): Promise<void> {
    if (this.#moments.size > 0) await writeFile(join(directory, FILE), JSON.stringify(Object.fromEntries(this.#moments)));
  }

  async loadState(directory: string): Promise<void> {
    const path = join(directory, FILE);
    const text = (await ifThere(path, readRegularFile)) ?? '{}';
    const parsed = parseWire(StateSchema, text);
    if ('problem' in parsed) throw new ResultsError(`${path} is invalid: ${parsed.problem}; resume from an earlier checkpoint`);
    this.#moments = new Map(Object.entries(parsed.value));
  }

  #credit(key: string, members: readonly CreditPart[]) {
    const { algorithm, rollouts } = this.#config;
    const { scope, weighting, std, epsilon, decay } = algorithm.advantage;
    const returns = members.map((member) => tokenReturns(member, weighting));
    const earlier = this.#moments.get(key) ?? null;
    const scored = returns.map((own, i) => {
      const { tokens, share } = members[i]!;
      return weighting === 'token' ? runs(own) : [{ reward: own[0]!, tokens, share }];
    });
    const isMasked = members.map(({ trajectory }) => rollouts.truncated === 'mask' && trajectory.isTruncated);
    // A mean over tokens is taken over trained tokens: those of a masked rollout take no part in it, although their rewards are credited.
    const compared = scored.flatMap((own, i) => (isMasked[i] ? own.map((run) => ({ ...run, tokens: 0 })) : own));
    const { advantages, moments, isConstant, std: deviation } = scopeAdvantages(compared, { weighting, std, epsilon }, earlier);
    if (scope === 'none') return { advantages: returns.map((own, i) => own.subarray(0, members[i]!.tokens)), std: deviation, isConstant: false };
    if (decay > 0) this.#moments.set(key, decayMoments(moments, decay));
    let at = 0;
    const perToken = members.map((member, i) => {
      const own = new Float64Array(member.tokens);
      let from = 0;
      for (const { tokens } of scored[i]!) own.fill(advantages[at++]!, from, (from += tokens));
      return own;
    });
    return { advantages: perToken, std: deviation, isConstant };
  }
}

/**
 * The return of each token before the comparison, [M]: the reward minus the penalties from this token on (`token`, as in REINFORCE++), or minus
 * all of them. With `sequence` a rollout without tokens has one entry, so that its reward counts.
 */
function tokenReturns({ reward, tokens, penalties }: CreditPart, weighting: 'sequence' | 'token'): Float64Array {
  const returns = new Float64Array(weighting === 'token' ? tokens : Math.max(tokens, 1)).fill(reward);
  if (penalties === null) return returns;
  let later = 0;
  for (let t = tokens - 1; t >= 0; t--) {
    later += penalties[t]!;
    returns[t]! -= later;
  }
  return weighting === 'token' ? returns : returns.fill(reward - later);
}

/** Equal neighbours together: without penalties a rollout is one run. */
function runs(values: Float64Array): (ScopeMember & { tokens: number })[] {
  const found: (ScopeMember & { tokens: number })[] = [];
  for (const reward of values) {
    const last = found.at(-1);
    if (last?.reward === reward) last.tokens++;
    else found.push({ reward, tokens: 1 });
  }
  return found;
}
