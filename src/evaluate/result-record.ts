/** A rollout as the lines of a run's files. */
import type { Row } from '../core/dataset.ts';
import { branchColumns, segmentColumns, toolColumns } from '../rollouts/branch-columns.ts';
import { requestFacts } from '../rollouts/agent-requests.ts';
import { completionMessages, wireMessage } from '../rollouts/message-columns.ts';
import { bufferColumns, factColumns, usageColumns } from '../rollouts/rollout-columns.ts';
import type { Rollout, RolloutTiming } from '../rollouts/rollout.ts';
import { turnsOfGenerations } from '../rollouts/turns-of-generations.ts';
import type { WireResult, WireTokens } from '../schemas/results.ts';
import type { Redaction } from './redaction.ts';

export interface RecordOptions {
  readonly seed: number;
  /** Names of the rubric's metrics: null columns on a rollout that failed. */
  readonly metricNames: readonly string[];
  /** Keys of the episode's state to record. */
  readonly stateColumns: readonly string[];
  readonly redaction: Redaction;
}

/** The line of `results.jsonl`: the columns of verifiers v0, then this package's own, then metrics and state under names that are still free. */
export function resultRecord<R extends Row>(rollout: Rollout<R>, options: RecordOptions): WireResult {
  const metrics = Object.fromEntries(options.metricNames.map((name) => [name, rollout.metrics[name] ?? null]));
  const state = Object.fromEntries(options.stateColumns.map((name) => [name, plainData(rollout.state[name])]));
  const columns = { ...v0Columns(rollout, metrics, options.redaction), ...ownColumns(rollout, options) };
  const further = Object.entries({ ...state, ...metrics }).filter(([name]) => !(name in columns));
  const { example_id, rollout_id, group_id } = columns;
  // A resume identifies rollouts by their ids, so ids are never redacted.
  return { ...options.redaction.values({ ...columns, ...Object.fromEntries(further) }), example_id, rollout_id, group_id };
}

function v0Columns<R extends Row>(rollout: Rollout<R>, metrics: WireResult['metrics'], redaction: Redaction) {
  const { row } = rollout;
  return {
    example_id: row.exampleId,
    prompt: rollout.prompt.map(wireMessage),
    completion: completionMessages(rollout),
    ...(row.answer === undefined ? {} : { answer: row.answer }),
    ...(row.info === undefined ? {} : { info: row.info }),
    reward: rollout.reward,
    error: wireError(rollout, redaction),
    timing: wireTiming(rollout.timing),
    is_completed: rollout.error === null,
    is_truncated: rollout.isTruncated,
    stop_condition: rollout.stop,
    metrics,
    token_usage: tokenUsage(rollout),
    error_chain: rollout.error?.type ?? null,
    long_error_chain: rollout.error === null ? null : redaction.text(rollout.error.chain),
  };
}

function ownColumns<R extends Row>(rollout: Rollout<R>, { seed, redaction }: RecordOptions) {
  const branches = branchColumns(rollout);
  return {
    ...factColumns(rollout),
    ...turnsOfGenerations(rollout.generations, null),
    attempts: rollout.attempts,
    ...(rollout.repeatedUsage === undefined ? {} : { repeated_usage: usageColumns(rollout.repeatedUsage) }),
    seed,
    cut_observations: rollout.cutObservations,
    turn_format: rollout.turnFormat,
    scored_with: rollout.scoredWith,
    ...(rollout.tools.length === 0 ? {} : { tools: toolColumns(rollout.tools) }),
    ...(branches === null ? {} : { branches }),
    ...requestFacts(rollout),
    ...(rollout.metricErrors === undefined ? {} : { metric_errors: byName(rollout.metricErrors, redaction) }),
    ...countColumn('guessed_stops', rollout.generations.filter(({ stopIsGuess }) => stopIsGuess === true).length),
    ...countColumn('ignored_stops', rollout.generations.filter(({ stopWasIgnored }) => stopWasIgnored === true).length),
    ...(rollout.cleanUpError === null ? {} : { clean_up_error: redaction.text(rollout.cleanUpError.chain) }),
    segments: rollout.segments.map(segmentColumns),
    generations: rollout.generations.map((g) => ({
      finish: g.finish,
      stop_reason: g.stopReason,
      input_tokens: g.usage.promptTokens,
      output_tokens: g.usage.completionTokens,
      cached_tokens: g.usage.cachedTokens,
      max_new_tokens: g.maxNewTokens,
      kept_tokens: g.keptTokens,
      overhang: g.overhang,
      ...(g.opening === undefined ? {} : { opening: g.opening }),
      ...(g.reward === undefined ? {} : { reward: g.reward }),
    })),
  };
}

/** A column that is absent where there is nothing to count. */
function countColumn<const N extends string>(name: N, count: number): { readonly [name in N]?: number } {
  return count === 0 ? {} : ({ [name]: count } as { readonly [name in N]?: number });
}

/** The lines of `tokens.jsonl`, one for each branch; none for a chat policy and for a rollout that failed before its rewards, which cannot be scored later. */
export function tokensRecords<R extends Row>({ rolloutId, branches, error }: Rollout<R>): WireTokens[] {
  if (error !== null && error.phase !== 'scoring') return [];
  return branches.flatMap(({ tokens, parent }, branch) => {
    if (tokens === null) return [];
    return [{ rollout_id: rolloutId, ...(branches.length === 1 ? {} : { branch, parent }), ...bufferColumns(tokens) }];
  });
}

export function wireError({ error }: Pick<Rollout, 'error'>, redaction: Redaction): WireResult['error'] {
  if (error === null) return null;
  return {
    error: error.type,
    message: redaction.text(error.message),
    error_chain_repr: error.type,
    error_chain_str: redaction.text(error.chain),
    phase: error.phase,
    retryable: error.retryable,
    ...(error.reason === undefined ? {} : { reason: error.reason }),
  };
}

function byName(texts: Readonly<Record<string, string>>, redaction: Redaction): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, redaction.text(text)]));
}

/** Seconds. Phases that alternate (model and environment) have only a duration. */
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

/** Sums over the calls, and the final contexts of all branches by author: exact from the tokens; in chat mode from the server's counts. */
function tokenUsage<R extends Row>({ usage, branches, generations }: Rollout<R>): WireResult['token_usage'] {
  const sums = usageColumns(usage);
  const sequences = branches.flatMap(({ tokens }) => (tokens === null ? [] : [tokens]));
  if (sequences.length > 0) {
    const written = sequences.reduce((sum, { sampledLength }) => sum + sampledLength, 0);
    const all = sequences.reduce((sum, { length }) => sum + length, 0);
    return { ...sums, final_input_tokens: all - written, final_output_tokens: written };
  }
  const last = generations.at(-1)?.usage;
  const earlier = last === undefined ? 0 : usage.outputTokens - last.completionTokens;
  return { ...sums, final_input_tokens: Math.max(0, (last?.promptTokens ?? 0) - earlier), final_output_tokens: usage.outputTokens };
}

/** The part of a state value that JSON can hold. */
export function plainData(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value) ?? 'null');
  } catch {
    return String(value);
  }
}
