/** Summary of a training run: the figures that `vf-train` prints, and the JSON object of `--json`. */
import type { XStatic } from 'typebox/schema';
import { byName, choice, closed, count, flag, listOf, nullable, number, numberOrNull, text, textOrNull } from './json-schema.ts';
import { type Camel, snakeKeys } from './key-case.ts';
import { RoleStatsSchema } from './role-stats.ts';

/** A reward measured after `step` steps. */
const rewardAt = closed({ step: count, value: number });
export type RewardAt = Camel<XStatic<typeof rewardAt>>;

/** Losses in nats per token, the first, the last and the lowest. */
const lossCurve = nullable(closed({ first: rewardAt, last: rewardAt, best: rewardAt }));

/** A mean reward on held-out rows with its 95 % confidence interval, which is null for a single row. `failed`: rollouts beyond `rollouts`, which have no reward; `unplayed`: of these, those in which the policy had no room for a first token; each is absent if there are none. */
const heldOutReward = closed(
  { step: count, value: number, low: numberOrNull, high: numberOrNull, rollouts: count },
  { failed: count, unplayed: count },
);
export type HeldOutReward = Camel<XStatic<typeof heldOutReward>>;

/** The object of `--json`. Fields may be added; existing ones keep their name and meaning. */
export const trainingSummarySchema = closed(
  {
    name: text,
    environment: text,
    /** The base model, as the gradient backend loads it. */
    base_model: text,
    reason: choice('finished', 'stopped', 'interrupted'),
    message: textOrNull,
    /** Steps done, and steps configured. */
    step: count,
    steps: count,
    /** Version and server-side name of the policy that serves at the end. */
    version: count,
    model: text,
    /** Mean reward of training batches; null if no step had a finished rollout. */
    reward: nullable(closed({ first: rewardAt, last: rewardAt, best: rewardAt })),
    /** Null if nothing was evaluated. */
    held_out: nullable(closed({ start: heldOutReward, end: heldOutReward, best: heldOutReward, evaluations: count })),
    /** Losses on demonstrations, of supervised steps and of held-out rows; null for a run without demonstrations. */
    supervised: nullable(closed({ demonstrations: count, tokens: count, loss: lossCurve, validation_loss: lossCurve, best_adapter: textOrNull })),
    /** Steps with an update and without one. */
    steps_applied: count,
    steps_skipped: count,
    /** `untrained`: with rewards that differ, but without an advantage or a token to train; absent if none. */
    groups: closed({ trained: count, constant: count, too_small: count }, { untrained: count }),
    /** Rollouts of training; failed ones have no reward and no mean includes them. `unplayed`: of these, those in which the policy had no room for a first token; absent if none. `truncated`: of the finished ones, those that a length limit cut short; absent if none. */
    rollouts: closed({ finished: count, failed: count }, { unplayed: count, truncated: count }),
    tokens: closed({ sampled: count, trained: count, forwarded: count }),
    tokens_per_second: closed({ sampled: numberOrNull, trained: numberOrNull }),
    /** Wall-clock seconds of steps, evaluations and checkpoints over all sessions, without starting servers and models. `total` is the sum of the others. */
    seconds: closed({
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
    /** CPU time of the trainer's process divided by the wall-clock time of the steps; null if no step was timed or the embedded engine ran in the process. */
    overhead_share: numberOrNull,
    /** |log π trainer - log π server| of sampled tokens: mean over the run's trained tokens, and the largest. Null if never measured. */
    /** `steps`: the number of trained steps that measured it, where others did not. */
    log_prob_difference: nullable(closed({ mean: number, max: number }, { steps: count })),
    directory: text,
    metrics: text,
    adapter: textOrNull,
    checkpoint: textOrNull,
    plots: listOf(text),
    /** File with one held-out question before and after training; null without two evaluations. */
    transcripts: textOrNull,
    events: count,
    resumable: flag,
  },
  {
    /** The adapter in `best/`, with the measurement that chose it; absent if none was kept. */
    best: closed({ adapter: text, metric: text, step: count, version: count, value: number }, { lower_is_better: flag }),
    /** The metric of the evaluation that `checkpoint.best` names; absent if it names none, or nothing has it. */
    best_by: closed({
      metric: text,
      lower_is_better: flag,
      start: rewardAt,
      end: rewardAt,
      best: rewardAt,
    }),
    /** Costs and times of the models other than the policy, by role, in this process; absent if none was called. */
    roles: byName(RoleStatsSchema),
    /** US dollars that these models, and the training service, have cost in all processes of the run; null if a price or the usage of a server is missing; absent if nothing can cost anything, and `service` without such a service. */
    cost: closed(
      {
        usd: numberOrNull,
        roles: byName(numberOrNull),
        unpriced: listOf(text),
        uncounted: listOf(text),
        limit: numberOrNull,
        limit_reached: flag,
      },
      { service: numberOrNull },
    ),
    /** The update after which the policy was destroyed, the figures before and after it, and the flags of a new run that avoid it; absent without one. */
    collapse: closed({ step: count, text, flags: listOf(text) }),
    /** Why steps changed no weight, as their events record it, most frequent first: `kind` is null for a run of an earlier version. Absent if none was skipped. */
    skip_reasons: listOf(closed({ kind: textOrNull, text, steps: count })),
    /** Settings that led to other weights and changed between the steps, each with the first step of each value; absent if none did. `files.<key>`: the files that a setting names, with the beginnings of their digests. */
    changed_settings: listOf(closed({ key: text, values: listOf(closed({ from: count, value: {} })) })),
    /** Rollouts of training by stop condition, most frequent first; absent without any. */
    stop_conditions: byName(count),
    /** Metrics of the credit by their names without `credit/`, in its order, the first five; absent if it has none. */
    credit: listOf(closed({ name: text, first: rewardAt, last: rewardAt })),
    /** Files with the rows of a source, such as the programs that the policy invented; absent if it gave none. */
    source_files: listOf(text),
  },
);
export type TrainingSummaryWire = XStatic<typeof trainingSummarySchema>;
export type TrainingSummary = Camel<TrainingSummaryWire>;

/** The same fields in snake_case. */
export function trainingSummaryToWire(summary: TrainingSummary): TrainingSummaryWire {
  return snakeKeys(summary) as TrainingSummaryWire;
}
