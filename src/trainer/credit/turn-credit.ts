/**
 * Credit by turn, for environments whose `step` rewards turns: MT-GRPO (arXiv 2505.11821) and its two estimates, `cae` and `aae` in the code of its authors
 * (SiliangZeng/Multi-Turn-RL-Agent, mt_grpo_env_trainer.py), for any number of turns.
 * - `returns` (`cae`): the return of a turn, G_k = r_k + γ G_(k+1), and of the last one G_K = r_K + R, where R is the rollout's reward. Its advantage is G_k compared
 *   with those of the other rollouts in the same turn, or with all turns of the scope (Kevin, arXiv 2507.11948).
 * - `sum` (`aae`): the advantage of R, plus `turn_weight` times that of r_k among the rollouts that have a reward in the same turn.
 * A turn that no other rollout of its scope reached is compared with nothing, so its own part is 0.
 */
import { ConfigError, TrainingError } from '../../core/errors.ts';
import { suggestion } from '../../core/closest-name.ts';
import { closed } from '../../schemas/json-schema.ts';
import { schemaCheck, schemaProblem } from '../../schemas/schema-check.ts';
import type { Credit, CreditAssignment, CreditBatch, CreditRollout } from '../credit.ts';
import { hasBranchRewards } from '../trajectory-branches.ts';
import { withConstantGroups } from './constant-groups.ts';
import { groupAdvantages } from './group-advantages.ts';
import { type CreditConfig, scopeKey } from './group-credit.ts';

const schema = closed(
  {},
  {
    estimate: { enum: ['returns', 'sum'] },
    gamma: { type: 'number', minimum: 0, maximum: 1 },
    compare: { enum: ['turn', 'all'] },
    turn_weight: { type: 'number', minimum: 0 },
  },
);

/** The name of this credit in `algorithm.advantage.use`. */
export const TURN_CREDIT = 'turns';

interface TurnArgs {
  readonly estimate: 'returns' | 'sum';
  readonly gamma: number;
  readonly compare: 'turn' | 'all';
  readonly turnWeight: number;
}

/** Throws ConfigError for settings that it does not have. */
export function turnCredit(config: CreditConfig): Credit {
  const args = turnArgs(config.algorithm.advantage.args);
  const { constantGroups } = config.algorithm;
  return { assign: (batch) => withConstantGroups(assigned(batch, args, config), batch, constantGroups) };
}

function turnArgs(given: Readonly<Record<string, unknown>>): TurnArgs {
  const check = schemaCheck(schema);
  const known = Object.keys(schema.properties);
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new ConfigError(
      `The credit turns has no setting ${unknown}${suggestion(unknown, known)}; its settings are ${known.join(', ')} (algorithm.advantage.args)`,
    );
  if (!check(given)) throw new ConfigError(`The settings (algorithm.advantage.args) of the credit turns are wrong: ${schemaProblem(check, 'args')}`);
  const { estimate = 'returns', gamma = 1, compare = 'turn', turn_weight: turnWeight = 1 } = given as Partial<TurnArgs> & { turn_weight?: number };
  const unused = estimate === 'sum' ? ['gamma', 'compare'] : ['turn_weight'];
  const wrong = unused.find((name) => Object.hasOwn(given, name));
  if (wrong !== undefined)
    throw new ConfigError(
      `The setting ${wrong} of the credit turns has no effect with estimate = "${estimate}"; leave it out (algorithm.advantage.args)`,
    );
  return { estimate, gamma, compare, turnWeight };
}

function assigned({ groups }: CreditBatch, args: TurnArgs, { algorithm: { advantage } }: CreditConfig): CreditAssignment {
  const { scope } = advantage;
  const rewarded = groups.flat().find(({ trajectory }) => hasBranchRewards(trajectory));
  if (rewarded !== undefined)
    throw new TrainingError(
      `The environment gave branches of the rollout ${rewarded.trajectory.rolloutId} rewards of their own, which the credit turns does not read. Set algorithm.advantage.use = "outcome", which compares them by role`,
    );
  const advantages = new Map<CreditRollout, readonly number[] | null>();
  const compared = (values: readonly number[]) =>
    scope === 'none' ? values : groupAdvantages(values, { ...advantage, singleton: 'zero' }).advantages;
  for (const members of Map.groupBy(groups.flat(), ({ trajectory }) => scopeKey(scope, trajectory)).values()) {
    const isAlone = scope === 'group' && members.length < 2;
    const own = isAlone ? members.map(() => null) : args.estimate === 'sum' ? summed(members, args, compared) : returned(members, args, compared);
    members.forEach((member, i) => advantages.set(member, own[i]!));
  }
  return {
    advantages: groups.map((members) => members.map((member) => advantages.get(member)!)),
    constantReason: `no two rollouts of the same ${scope === 'group' ? 'row' : 'scope'} have different rewards or returns in the same turn`,
  };
}

type Compare = (values: readonly number[]) => ArrayLike<number>;

function returned(members: readonly CreditRollout[], { gamma, compare }: TurnArgs, compared: Compare): number[][] {
  const returns = members.map(({ turns, reward }) => {
    const own = turns.map((turn) => turn.reward ?? 0);
    if (own.length > 0) own[own.length - 1]! += reward;
    for (let k = own.length - 2; k >= 0; k--) own[k]! += gamma * own[k + 1]!;
    return own;
  });
  const advantages = returns.map((own) => own.map(() => 0));
  const places = returns.flatMap((own, i) => own.map((value, k) => ({ i, k, value })));
  for (const turns of Map.groupBy(places, ({ k }) => (compare === 'all' ? 0 : k)).values()) {
    const values = compared(turns.map(({ value }) => value));
    for (const [at, { i, k }] of turns.entries()) advantages[i]![k] = values[at]!;
  }
  return advantages;
}

function summed(members: readonly CreditRollout[], { turnWeight }: TurnArgs, compared: Compare): number[][] {
  const outcomes = compared(members.map(({ reward }) => reward));
  const advantages = members.map(({ turns }, i) => turns.map(() => outcomes[i]!));
  const places = members.flatMap(({ turns }, i) => turns.flatMap(({ reward }, k) => (reward === null ? [] : [{ i, k, reward }])));
  for (const turns of Map.groupBy(places, ({ k }) => k).values()) {
    const values = compared(turns.map(({ reward }) => reward));
    for (const [at, { i, k }] of turns.entries()) advantages[i]![k]! += turnWeight * values[at]!;
  }
  return advantages;
}
