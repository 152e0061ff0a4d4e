import type { WireResult } from '../schemas/results.ts';

/** What the summary needs of a recorded rollout; texts stay on disk. */
export interface RecordedRollout {
  readonly rolloutId: string;
  readonly groupId: string;
  readonly exampleId: string | number;
  readonly index: number;
  /** The row's task; null where it has none. */
  readonly task: string | null;
  /** Null for a rollout that failed. */
  readonly reward: number | null;
  /** By name; those of a failed rollout are missing. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly stop: string;
  readonly error: { readonly type: string; readonly message: string } | null;
  /** What the environment's clean-up threw; absent if it succeeded. */
  readonly cleanUpError?: string;
  readonly isTruncated: boolean;
  readonly turns: number;
  /** Observations of which only the head was kept. */
  readonly cutObservations: number;
  /** When it was scored, in milliseconds since the epoch. */
  readonly endedAtMs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Null when the server did not say. */
  readonly cachedTokens: number | null;
}

export function recordedRollout(result: WireResult): RecordedRollout {
  const metrics: Record<string, number> = {};
  for (const [name, value] of Object.entries(result.metrics)) if (value !== null) metrics[name] = value;
  return {
    rolloutId: result.rollout_id,
    groupId: result.group_id,
    exampleId: result.example_id,
    index: result.rollout_index,
    task: result.task ?? null,
    reward: result.reward,
    metrics,
    stop: result.stop_condition,
    error: result.error === null ? null : { type: result.error.error, message: result.error.message },
    ...(result.clean_up_error === undefined ? {} : { cleanUpError: result.clean_up_error }),
    isTruncated: result.is_truncated,
    turns: result.num_turns,
    cutObservations: result.cut_observations,
    endedAtMs: (result.timing.start_time + result.timing.total) * 1000,
    inputTokens: result.token_usage.input_tokens,
    outputTokens: result.token_usage.output_tokens,
    cachedTokens: result.token_usage.cached_tokens,
  };
}
