/** A rollout as the lines that are written of it. */
import type { Row } from '../core/dataset.ts';
import type { Message } from '../core/message.ts';
import type { TextSegment } from '../core/rubric.ts';
import type { Rollout, RolloutTiming } from '../rollouts/rollout.ts';
import { RESULT_COLUMNS, type WireMessage, type WireResult, type WireTokens } from '../schemas/results.ts';
import type { Redaction } from './redaction.ts';

export interface RecordOptions {
  readonly seed: number;
  /** Names of the rubric's metrics: null columns on a rollout that failed. */
  readonly metricNames: readonly string[];
  /** Keys of the episode's state to record. */
  readonly stateColumns: readonly string[];
  readonly redaction: Redaction;
}

/** The line of `results.jsonl`. */
export function resultRecord<R extends Row>(rollout: Rollout<R>, options: RecordOptions): WireResult {
  const metrics = Object.fromEntries(options.metricNames.map((name) => [name, rollout.metrics[name] ?? null]));
  const ids = { example_id: rollout.row.exampleId, rollout_id: rollout.rolloutId, group_id: rollout.groupId };
  const record = options.redaction.values({
    ...Object.fromEntries(options.stateColumns.map((name) => [name, plainData(rollout.state[name])])),
    ...metrics,
    ...ids,
    prompt: rollout.row.prompt.map(wireMessage),
    completion: completion(rollout.segments, rollout.tokens !== null),
    ...(rollout.row.answer === undefined ? {} : { answer: rollout.row.answer }),
    ...(rollout.row.info === undefined ? {} : { info: rollout.row.info }),
    reward: rollout.reward,
    ...errorColumns(rollout, options.redaction),
    timing: wireTiming(rollout.timing),
    is_completed: rollout.error === null,
    is_truncated: rollout.isTruncated,
    stop_condition: rollout.stop,
    metrics,
    token_usage: tokenUsage(rollout),
    rollout_index: rollout.index,
    attempts: rollout.attempts,
    seed: options.seed,
    model: rollout.policy.model,
    policy_version: rollout.policy.version,
    num_turns: rollout.generations.length,
    is_cut: rollout.isCut,
    cut_observations: rollout.cutObservations,
    segments: rollout.segments,
    generations: rollout.generations.map((g) => ({
      finish: g.finish,
      stop_reason: g.stopReason,
      input_tokens: g.usage.promptTokens,
      output_tokens: g.usage.completionTokens,
      cached_tokens: g.usage.cachedTokens,
      max_new_tokens: g.maxNewTokens,
      kept_tokens: g.keptTokens,
      overhang: g.overhang,
    })),
  });
  return { ...inColumnOrder(record), ...ids } as WireResult;
}

/** The line of `tokens.jsonl`; null where there is nothing to record: a chat policy, or a rollout that failed. */
export function tokensRecord<R extends Row>(rollout: Rollout<R>): WireTokens | null {
  if (rollout.tokens === null || rollout.error !== null) return null;
  const { ids, mask, logProbs, promptLength, segments } = rollout.tokens;
  return {
    rollout_id: rollout.rolloutId,
    token_ids: Array.from(ids),
    loss_mask: Array.from(mask, (bit) => (bit === 1 ? 1 : 0)),
    // The buffer holds NaN exactly where the mask is 0, and JSON has no NaN.
    logprobs: Array.from(logProbs, (value, i) => (mask[i] === 1 ? value : null)),
    prompt_length: promptLength,
    segments: segments.map((segment) => ({ ...segment })),
  };
}

/**
 * The response as messages. Under a token policy the whole episode is one assistant turn and so is this; under a chat policy every
 * observation was a user message.
 */
function completion(segments: readonly TextSegment[], isContinuation: boolean): WireMessage[] {
  if (segments.length === 0) return [];
  if (isContinuation) return [{ role: 'assistant', content: segments.map((s) => s.text).join('') }];
  return segments.map(({ kind, text }) => ({ role: kind === 'model' ? 'assistant' : 'user', content: text }));
}

function wireMessage({ role, content, toolCalls, toolCallId }: Message): WireMessage {
  return {
    role,
    content,
    ...(toolCalls === undefined ? {} : { tool_calls: toolCalls.map((call) => ({ id: call.id, name: call.name, arguments: call.arguments })) }),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
  };
}

function errorColumns<R extends Row>({ error }: Rollout<R>, redaction: Redaction): Pick<WireResult, 'error' | 'error_chain' | 'long_error_chain'> {
  if (error === null) return { error: null, error_chain: null, long_error_chain: null };
  const chain = redaction.text(error.chain);
  return {
    error: {
      error: error.type,
      message: redaction.text(error.message),
      error_chain_repr: error.type,
      error_chain_str: chain,
      phase: error.phase,
      retryable: error.retryable,
    },
    error_chain: error.type,
    long_error_chain: chain,
  };
}

/** Seconds. Phases that alternate (model and environment) have a duration alone. */
function wireTiming(timing: RolloutTiming): WireResult['timing'] {
  const startTime = timing.startedAtMs / 1000;
  const setup = span(startTime, timing.setupMs);
  const generation = span(setup.end, timing.generationMs + timing.environmentMs);
  const scoring = span(generation.end, timing.scoringMs);
  return {
    start_time: startTime,
    setup,
    generation,
    scoring,
    model: { duration: timing.generationMs / 1000 },
    env: { duration: timing.environmentMs / 1000 },
    total: setup.duration + generation.duration + scoring.duration,
  };
}

function span(start: number, durationMs: number): { start: number; end: number; duration: number } {
  return { start, end: start + durationMs / 1000, duration: durationMs / 1000 };
}

/** Sums over the calls, and the final context by author: exact from the tokens, from the server's counts under a chat policy. */
function tokenUsage<R extends Row>({ usage, tokens, generations }: Rollout<R>): WireResult['token_usage'] {
  const sums = { input_tokens: usage.inputTokens, output_tokens: usage.outputTokens, cached_tokens: usage.cachedTokens };
  if (tokens !== null) {
    const written = tokens.sampledLength;
    return { ...sums, final_input_tokens: tokens.length - written, final_output_tokens: written };
  }
  const last = generations.at(-1)?.usage;
  const earlier = last === undefined ? 0 : usage.outputTokens - last.completionTokens;
  return { ...sums, final_input_tokens: Math.max(0, (last?.promptTokens ?? 0) - earlier), final_output_tokens: usage.outputTokens };
}

/** What JSON can hold of a value that an environment kept for itself. */
function plainData(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value) ?? 'null');
  } catch {
    return String(value);
  }
}

/** v0's columns first, ours next, metrics and state columns last; a metric that bears a column's name stays in `metrics` alone, a state key is left out. */
function inColumnOrder(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const ordered: Record<string, unknown> = {};
  for (const name of RESULT_COLUMNS) if (name in record) ordered[name] = record[name];
  return { ...ordered, ...Object.fromEntries(Object.entries(record).filter(([name]) => !(name in ordered))) };
}
