/** The built-in losses by id, each with the function that makes it from its settings. A user's module exports `createLoss`, a LossFactory. */
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { closed, nullable } from '../../schemas/json-schema.ts';
import { schemaCheck, schemaProblem } from '../../schemas/schema-check.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { Aggregation } from './aggregation.ts';
import { nllLoss } from './nll-loss.ts';
import { type Objective, ratioLoss, type RatioLossConfig } from './ratio-loss.ts';
import { rpgLoss, type RpgLossConfig } from './rpg-loss.ts';
import type { TokenLoss } from '../token-loss.ts';

export interface LossContext {
  /** `[algorithm]` of the run. */
  readonly algorithm: TrainingConfig['algorithm'];
  /** The environment's limit of new tokens per generation: Dr. GRPO's constant unless the configuration sets one. */
  readonly responseTokens: number;
}

/**
 * Makes a loss from its settings. Throws ConfigError for settings that it does not have.
 * @example export const createLoss: LossFactory = (args) => nllLoss({ kind: 'token_mean' });
 */
export type LossFactory = (args: Readonly<Record<string, unknown>>, context: LossContext) => TokenLoss;

const aggregationName = { enum: ['token_mean', 'sequence_mean', 'sequence_mean_token_sum', 'sum'] } as const;
const byRole = { anyOf: [{ type: 'number' }, { type: 'object', additionalProperties: { type: 'number' } }] } as const;

const nllArgs = closed({}, { aggregation: aggregationName });
const rpgArgs = closed(
  { beta: byRole },
  {
    ratio: { enum: ['token', 'sequence'] },
    log_ratio_clamp: nullable({ type: 'number', exclusiveMinimum: 0 }),
    weight: byRole,
    aggregation: { enum: [...aggregationName.enum, 'role_token_mean'] },
  },
);

export const LOSSES: Readonly<Record<string, LossFactory>> = {
  ratio(args, context) {
    checkArgs('ratio', closed({}), args);
    return ratioLoss(ratioConfig(context));
  },
  nll(args) {
    const { aggregation = 'token_mean' } = checkArgs('nll', nllArgs, args) as { aggregation?: AggregationName };
    return nllLoss(aggregationOf(aggregation));
  },
  rpg(args) {
    const { beta, ratio = 'token', log_ratio_clamp = 2.3, weight = 1, aggregation = 'token_mean' } = checkArgs('rpg', rpgArgs, args) as RpgArgs;
    const rule = aggregation === 'role_token_mean' ? ({ kind: 'role_token_mean' } as const) : aggregationOf(aggregation);
    return rpgLoss({ ratio, logRatioClamp: log_ratio_clamp, beta, weight, aggregation: rule });
  },
};

interface RpgArgs {
  readonly beta: RpgLossConfig['beta'];
  readonly ratio?: RpgLossConfig['ratio'];
  readonly log_ratio_clamp?: number | null;
  readonly weight?: RpgLossConfig['beta'];
  readonly aggregation?: AggregationName | 'role_token_mean';
}

/** Throws ConfigError for a missing, unknown or invalid setting. */
function checkArgs(id: string, schema: ReturnType<typeof closed>, args: Readonly<Record<string, unknown>>): unknown {
  const check = schemaCheck(schema);
  if (check(args)) return args;
  const known = Object.keys(schema.properties);
  const unknown = Object.keys(args).find((name) => !known.includes(name));
  if (unknown === undefined) throw new ConfigError(`The settings (args) of the loss ${id} are wrong: ${schemaProblem(check, 'args')}`);
  const have = known.length === 0 ? 'it has none' : `its settings are ${known.join(', ')}`;
  throw new ConfigError(`The loss ${id} has no setting ${unknown}${suggestion(unknown, known)}; ${have} (args)`);
}

/** The ratio loss that `[algorithm]` describes. */
export function ratioConfig({ algorithm: { loss, kl, correction, entropyCoefficient }, responseTokens }: LossContext): RatioLossConfig {
  const { level, mode, min, max } = correction;
  return {
    ratio: loss.ratio,
    objective: objective(loss),
    logRatioClamp: loss.logRatioClamp,
    correction: level === 'none' ? null : { level, mode, min, max },
    aggregation: loss.aggregation === 'constant' ? constantOf(loss.maxTokens ?? responseTokens) : aggregationOf(loss.aggregation),
    kl:
      kl.coefficient === 0 || kl.placement === 'reward'
        ? null
        : { estimator: kl.estimator, coefficient: kl.coefficient, clamp: kl.clamp === null ? null : [-kl.clamp, kl.clamp], against: kl.against },
    entropyCoefficient,
  };
}

type Loss = TrainingConfig['algorithm']['loss'];

function objective({ objective: kind, clipLow, clipHigh, dualClip, ratioMin, ratioMax }: Loss): Objective {
  if (kind === 'clip') return { kind, clipLow, clipHigh, dualClip };
  return kind === 'cispo' ? { kind, ratioMin, ratioMax } : { kind };
}

/** Without a limit the divisor would be infinite, and every gradient 0. */
function constantOf(maxTokens: number): Aggregation {
  if (maxTokens > 0 && Number.isFinite(maxTokens)) return { kind: 'constant', maxTokens };
  throw new ConfigError(
    'algorithm.loss.aggregation = "constant" divides by the most tokens of a response, and the environment has no such limit. Set algorithm.loss.max_tokens',
  );
}

export type AggregationName = (typeof aggregationName.enum)[number];

export function aggregationOf(name: AggregationName): Aggregation {
  switch (name) {
    case 'sum':
    case 'token_mean':
      return { kind: name };
    default:
      return { kind: 'sequence_mean', within: name === 'sequence_mean' ? 'mean' : 'sum', countEmpty: false };
  }
}
