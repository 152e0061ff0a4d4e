/** Summary of a training run: the figures that `vf-train` prints, and the JSON object of `--json`. */

import type { RoleStats } from './role-stats.ts';

/** A reward measured after `step` steps. */
export interface RewardAt {
  readonly step: number;
  readonly value: number;
}

/** A mean reward on held-out rows with its 95 % confidence interval, which is null for a single row. */
export interface HeldOutReward extends RewardAt {
  readonly low: number | null;
  readonly high: number | null;
  readonly rollouts: number;
}

export interface TrainingSummary {
  readonly name: string;
  readonly environment: string;
  /** The base model, as the gradient backend loads it. */
  readonly baseModel: string;
  readonly reason: 'finished' | 'stopped' | 'interrupted';
  readonly message: string | null;
  /** Steps done, and steps configured. */
  readonly step: number;
  readonly steps: number;
  /** Version and server-side name of the policy that serves at the end. */
  readonly version: number;
  readonly model: string;
  /** Mean reward of training batches; null if no step had a finished rollout. */
  readonly reward: { readonly first: RewardAt; readonly last: RewardAt; readonly best: RewardAt } | null;
  /** Null if nothing was evaluated. */
  readonly heldOut: { readonly start: HeldOutReward; readonly end: HeldOutReward; readonly best: HeldOutReward; readonly evaluations: number } | null;
  /** Steps with an update and without one. */
  readonly stepsApplied: number;
  readonly stepsSkipped: number;
  readonly groups: { readonly trained: number; readonly constant: number; readonly tooSmall: number };
  /** Rollouts of training; failed ones have no reward and no mean includes them. */
  readonly rollouts: { readonly finished: number; readonly failed: number };
  readonly tokens: { readonly sampled: number; readonly trained: number; readonly forwarded: number };
  readonly tokensPerSecond: { readonly sampled: number | null; readonly trained: number | null };
  /** Wall-clock seconds of steps, evaluations and checkpoints over all sessions, without starting servers and models. `total` is the sum of the others. */
  readonly seconds: {
    readonly total: number;
    readonly rollouts: number;
    readonly forward: number;
    readonly backward: number;
    readonly update: number;
    readonly publish: number;
    readonly evaluation: number;
    readonly checkpoint: number;
    readonly other: number;
  };
  /** CPU time of the trainer's process divided by the wall-clock time of the steps; null if no step was timed or the embedded engine ran in the process. */
  readonly overheadShare: number | null;
  /** |log π trainer - log π server| of sampled tokens: mean over the run's trained tokens, and the largest. Null if never measured. */
  readonly logProbDifference: { readonly mean: number; readonly max: number } | null;
  /** What models beside the policy cost and how long they took, by role, in this process; absent where none was asked. */
  readonly roles?: Readonly<Record<string, RoleStats>>;
  readonly directory: string;
  readonly metrics: string;
  readonly adapter: string | null;
  readonly checkpoint: string | null;
  readonly plots: readonly string[];
  /** File with one held-out question before and after training; null without two evaluations. */
  readonly transcripts: string | null;
  readonly events: number;
  readonly resumable: boolean;
}

const number = { type: 'number' } as const;
const numberOrNull = { type: ['number', 'null'] } as const;
const count = { type: 'integer', minimum: 0 } as const;
const text = { type: 'string' } as const;
const textOrNull = { type: ['string', 'null'] } as const;
const record = <const P extends object>(properties: P) =>
  ({ type: 'object', additionalProperties: false, required: Object.keys(properties), properties }) as const;
const orNull = <const S extends object>(schema: S) => ({ anyOf: [schema, { type: 'null' }] }) as const;

const rewardAt = record({ step: count, value: number });
const heldOutReward = record({ step: count, value: number, low: numberOrNull, high: numberOrNull, rollouts: count });

const quantiles = orNull(record({ p50: number, p90: number, p99: number }));
const roleStats = record({
  models: { type: 'array', items: text },
  calls: count,
  cache_hits: count,
  requests: count,
  failures: count,
  tokens: record({ input: count, output: count, cached: { type: ['integer', 'null'], minimum: 0 } }),
  latency_ms: quantiles,
  wait_ms: quantiles,
});

const everyRun = record({
  name: text,
  environment: text,
  base_model: text,
  reason: { enum: ['finished', 'stopped', 'interrupted'] },
  message: textOrNull,
  step: count,
  steps: count,
  version: count,
  model: text,
  reward: orNull(record({ first: rewardAt, last: rewardAt, best: rewardAt })),
  held_out: orNull(record({ start: heldOutReward, end: heldOutReward, best: heldOutReward, evaluations: count })),
  steps_applied: count,
  steps_skipped: count,
  groups: record({ trained: count, constant: count, too_small: count }),
  rollouts: record({ finished: count, failed: count }),
  tokens: record({ sampled: count, trained: count, forwarded: count }),
  tokens_per_second: record({ sampled: numberOrNull, trained: numberOrNull }),
  seconds: record({
    total: number,
    rollouts: number,
    forward: number,
    backward: number,
    update: number,
    publish: number,
    evaluation: number,
    checkpoint: number,
    other: number,
  }),
  overhead_share: numberOrNull,
  log_prob_difference: orNull(record({ mean: number, max: number })),
  directory: text,
  metrics: text,
  adapter: textOrNull,
  checkpoint: textOrNull,
  plots: { type: 'array', items: text },
  transcripts: textOrNull,
  events: count,
  resumable: { type: 'boolean' },
});

/** The object of `--json`. Fields may be added; none changes its name or meaning. */
export const trainingSummarySchema = {
  ...everyRun,
  properties: { ...everyRun.properties, roles: { type: 'object', additionalProperties: roleStats } },
} as const;

type SnakeKey<K extends string> = K extends `${infer Head}${infer Tail}`
  ? `${Head extends Lowercase<Head> ? Head : `_${Lowercase<Head>}`}${SnakeKey<Tail>}`
  : K;
type Snake<T> = T extends readonly (infer I)[]
  ? readonly Snake<I>[]
  : T extends object
    ? { readonly [K in keyof T & string as SnakeKey<K>]: Snake<T[K]> }
    : T;

export type TrainingSummaryWire = Snake<TrainingSummary>;

/** The same fields in snake_case. */
export function trainingSummaryToWire(summary: TrainingSummary): TrainingSummaryWire {
  return snakeKeys(summary) as TrainingSummaryWire;
}

function snakeKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeKeys);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), snakeKeys(inner)]);
  return Object.fromEntries(entries) as unknown;
}
