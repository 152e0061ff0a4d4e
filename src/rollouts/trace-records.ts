/** A rollout's part of the trace of its run: its turns, the reports of its environment, its calls of models by role, and its reward, in this order. */
import type { Row } from '../core/dataset.ts';
import type { AskedRecord } from '../core/model.ts';
import { contentImages, contentText } from '../core/message.ts';
import { wireMessage } from './message-columns.ts';
import type { Rollout } from './rollout.ts';
import { usageColumns } from './rollout-columns.ts';
import { turnsOfGenerations } from './turns-of-generations.ts';

/** A line without its run and step. */
export interface TraceRecord {
  readonly ts: number;
  readonly event: string;
  readonly group_id: string;
  readonly rollout_id: string;
  readonly turn: number | null;
  readonly play: number;
  readonly seq: number;
  readonly [field: string]: unknown;
}

/** Empty unless the environment `traces`. The last record is the rollout's `reward`. */
export function traceRecords<R extends Row>(rollout: Rollout<R>): readonly TraceRecord[] {
  const { events, rolloutId, groupId, timing, asked } = rollout;
  if (events === undefined) return [];
  const endMs = timing.startedAtMs + timing.setupMs + timing.generationMs + timing.environmentMs + timing.scoringMs;
  const place = { group_id: groupId, rollout_id: rolloutId, play: timing.startedAtMs };
  const whole = [
    ...events.map(({ event, turn, atMs, fields }) => ({ fields, event, turn: turn < 0 ? null : turn, atMs })),
    // The time of a call is not recorded, so it gets the time of the score.
    ...asked.map((record) => ({ fields: askedFields(record), event: record.role, turn: null, atMs: endMs })),
    { fields: { ...rewardFields(rollout), lines: events.length + asked.length + 1 }, event: 'reward', turn: null, atMs: endMs },
  ];
  return whole.map(({ fields, event, turn, atMs }, seq) => ({ ...fields, ts: Math.round(atMs) / 1000, event, ...place, turn, seq }));
}

function askedFields({ role, model, finish, ms, waitMs, attempts, usage, messages, text }: AskedRecord) {
  const images = messages.flatMap(({ content }) => contentImages(content).map(({ sha256 }) => sha256));
  const { promptTokens, completionTokens } = usage;
  return {
    role,
    model,
    text,
    finish,
    ms: Math.round(ms * 1000) / 1000,
    wait_ms: Math.round(waitMs * 1000) / 1000,
    attempts,
    input_tokens: promptTokens,
    output_tokens: completionTokens,
    ...(images.length === 0 ? {} : { images }),
  };
}

function rewardFields<R extends Row>(rollout: Rollout<R>) {
  const { row, prompt, index, reward, metrics, error, stop, turns, generations, policy, usage, timing, attempts } = rollout;
  const { startedAtMs: _, ...durations } = timing;
  const { setupMs: setup, generationMs: generation, environmentMs: environment, scoringMs: scoring } = durations;
  return {
    rollout_index: index,
    reward,
    metrics,
    ...(error === null ? {} : { error: { type: error.type, message: error.message } }),
    stop_condition: stop,
    num_turns: turns,
    ...turnsOfGenerations(generations, null),
    attempts,
    model: policy.model,
    policy_version: policy.version,
    token_usage: usageColumns(usage),
    timing_ms: { setup, generation, environment, scoring },
    question: questionOf({ row, prompt }),
    ...(row.answer === undefined ? {} : { reference: row.answer }),
    ...(row.info === undefined ? {} : { info: row.info }),
    prompt: prompt.map(wireMessage),
  };
}

/** The question that the row names, else the user's first message. */
function questionOf({ row, prompt }: Pick<Rollout, 'row' | 'prompt'>): string {
  const named = row.info?.['question'];
  if (typeof named === 'string') return named;
  const asked = prompt.find(({ role }) => role === 'user');
  return asked === undefined ? '' : contentText(asked.content);
}
