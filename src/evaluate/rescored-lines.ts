/** The lines of a rollout after it was scored again. Unchanged parts keep their bytes. */
import type { Row } from '../core/dataset.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import { askedLine } from '../models/asked-records.ts';
import type { Rollout } from '../rollouts/rollout.ts';
import { askedLineText } from '../schemas/asked-line.ts';
import { resultEncoder, ResultSchema, type WireResult } from '../schemas/results.ts';
import { playedLine } from './played-file.ts';
import { plainData, wireError } from './result-record.ts';
import type { Redaction } from './redaction.ts';
import type { RunRecord } from './run-index.ts';

/** New lines; absent if the old one stays. An empty one is removed. */
export interface RescoredLines {
  readonly result?: string;
  readonly asked?: string;
  readonly played?: string;
}

export interface RescoredOptions {
  readonly metricNames: readonly string[];
  readonly stateColumns: readonly string[];
  readonly redaction: Redaction;
  /** True if the environment's hook `finish` ran again, so that the state may be another one. */
  readonly hookRan: boolean;
}

export function rescoredLines<R extends Row>(rollout: Rollout<R>, record: RunRecord, options: RescoredOptions): RescoredLines {
  const { redaction } = options;
  const asked = askedText(rollout, redaction);
  const line = options.hookRan && record.played !== null ? playedLine(rollout, redaction) : null;
  const played = line === null ? null : JSON.stringify(line);
  const result = resultText(rollout, record.result, options);
  return {
    ...(result === null ? {} : { result }),
    ...(rollout.asked.length === 0 ? (record.lines.asked === null ? {} : { asked: '' }) : isSameJson(asked, record.lines.asked) ? {} : { asked }),
    ...(played === null || isSameJson(played, record.lines.played) ? {} : { played }),
  };
}

function askedText<R extends Row>({ rolloutId, asked }: Rollout<R>, redaction: Redaction): string {
  const line = askedLine(rolloutId, asked);
  return line === null ? '' : askedLineText({ ...redaction.values(line), rollout_id: rolloutId });
}

function isSameJson(text: string, before: string | null): boolean {
  return before !== null && canonicalJson(JSON.parse(text)) === canonicalJson(JSON.parse(before));
}

/** Null if the score is the recorded one. */
function resultText<R extends Row>(rollout: Rollout<R>, before: WireResult, options: RescoredOptions): string | null {
  const { metricNames, stateColumns, redaction } = options;
  const metrics = Object.fromEntries(metricNames.map((name) => [name, rollout.metrics[name] ?? null]));
  const state = Object.fromEntries(stateColumns.map((name) => [name, plainData(rollout.state[name])]));
  const score = {
    reward: rollout.reward,
    error: wireError(rollout, redaction),
    is_completed: rollout.error === null,
    stop_condition: rollout.stop,
    metrics,
    error_chain: rollout.error?.type ?? null,
    long_error_chain: rollout.error === null ? null : redaction.text(rollout.error.chain),
    scored_with: rollout.scoredWith,
  };
  const metricErrors = rollout.metricErrors === undefined ? undefined : redaction.values(rollout.metricErrors);
  const own = before as unknown as Record<string, unknown>;
  const changed = Object.entries({ ...score, metric_errors: metricErrors }).some(([key, value]) => canonicalJson(value) !== canonicalJson(own[key]));
  if (!changed) return null;
  // Columns of metrics that this rubric does not have are removed; those of state stay.
  const gone = Object.keys(before.metrics).filter((name) => !(name in metrics) && !(name in ResultSchema.properties) && !stateColumns.includes(name));
  const kept = Object.fromEntries(Object.entries(own).filter(([name]) => !gone.includes(name) && name !== 'metric_errors'));
  const further = Object.entries({ ...redaction.values(state), ...metrics }).filter(([name]) => !(name in ResultSchema.properties));
  const result = {
    ...kept,
    ...score,
    ...(metricErrors === undefined ? {} : { metric_errors: metricErrors }),
    timing: { ...before.timing, ...scoringTime(before.timing, rollout.timing.scoringMs / 1000) },
    ...Object.fromEntries(further),
  } as unknown as WireResult;
  return resultEncoder(metricNames)(result);
}

function scoringTime({ generation, setup }: WireResult['timing'], seconds: number) {
  return {
    scoring: { start: generation.end, end: generation.end + seconds, duration: seconds },
    total: setup.duration + generation.duration + seconds,
  };
}
