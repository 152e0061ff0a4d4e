/** A played and scored rollout as an episode of one trace. */
import { randomUUID } from 'node:crypto';
import type { Sampling } from '../../clients/policy-client.ts';
import type { Played, Rollout } from '../../rollouts/rollout.ts';
import { branchFactColumns, ownColumns } from '../../rollouts/branch-columns.ts';
import { turnsOfGenerations } from '../../rollouts/turns-of-generations.ts';
import type { WireCall, WireDelta, WireNode, WireRunReply, WireTask, WireTool, WireTraceFields } from '../../schemas/verifiers-wire/episode.ts';
import { toolsOnWire } from './trace-nodes.ts';

export interface EpisodeRecordOptions {
  readonly environmentId: string;
  /** The rubric's, by name; those of metrics are 0. */
  readonly weights: ReadonlyMap<string, number>;
  /** As the client sent it. */
  readonly taskData: Readonly<Record<string, unknown>>;
  readonly sampling: Sampling;
  /** Of this package. */
  readonly version: string;
  /** Removes secrets from an error's message. */
  readonly redact: (text: string) => string;
}

/** The parts of a rollout that the record holds. */
export type RecordedRun = Played & Pick<Rollout, 'rolloutId' | 'row' | 'reward' | 'metrics'>;

export interface EpisodeRecord {
  readonly delta: WireDelta;
  readonly reply: WireRunReply;
}

/** The name of the client's Python class. */
const TASK_TYPE = 'VfSearchTask';

export function episodeRecord(rollout: RecordedRun, nodes: readonly WireNode[], options: EpisodeRecordOptions): EpisodeRecord {
  const { environmentId, taskData, version, redact } = options;
  const { error } = rollout;
  const key = String(rollout.row.exampleId);
  const task: WireTask = { type: TASK_TYPE, data: taskData, key, hash: key };
  const id = wireId();
  const calls = callsOf(rollout, nodes, options.sampling);
  return {
    delta: {
      trace: id,
      open: { version: 1, id, verifiers: { version: `vf-search ${version}`, commit: null }, task },
      nodes,
      calls,
      errors: error === null ? [] : [{ type: error.type, message: redact(error.message) }],
      set: traceFields(rollout, options),
    },
    reply: {
      success: true,
      error: null,
      // As in verifiers, a rollout's errors are on its trace alone; on both they would be counted twice.
      head: { id: wireId(), env: { id: environmentId }, task, ok: error === null, is_timeout: isTimeout(error), errors: [] },
      traces: [{ id, nodes: nodes.length, calls: calls.length }],
    },
  };
}

/** 32 hexadecimal digits, as Python's uuid4().hex. */
function wireId(): string {
  return randomUUID().replaceAll('-', '');
}

function isTimeout(error: Rollout['error']): boolean {
  return error?.type === 'TimeoutError';
}

function callsOf({ generations, policy }: RecordedRun, nodes: readonly WireNode[], { temperature, topP, extra }: Sampling): readonly WireCall[] {
  const turns = nodes.flatMap((node, index) => (node.sampled ? [index] : []));
  return generations.flatMap(({ finish, usage, maxNewTokens }, i) => {
    const node = turns[i];
    if (node === undefined) return [];
    const isCall = finish === 'stop' && (nodes[node]!.message.tool_calls?.length ?? 0) > 0;
    return {
      node,
      model: policy.model,
      sampling: { ...extra, temperature, top_p: topP, max_tokens: maxNewTokens },
      finish_reason: isCall ? 'tool_calls' : finish,
      usage: {
        prompt_tokens: usage.promptTokens - (usage.cachedTokens ?? 0),
        completion_tokens: usage.completionTokens,
        cached_input_tokens: usage.cachedTokens,
      },
    };
  });
}

function traceFields(rollout: RecordedRun, { weights, redact }: EpisodeRecordOptions): WireTraceFields {
  const { error, stop, row, policy, rolloutId, isTruncated, isCut, timing } = rollout;
  return {
    agent: { config: { model: policy.model }, name: 'agent', trainable: true },
    tools: offeredTools(rollout),
    ...scores(rollout, weights),
    info: {
      rollout_id: rolloutId,
      example_id: row.exampleId,
      stop_condition: stop,
      is_truncated: isTruncated,
      is_cut: isCut,
      ...turnsOfGenerations(rollout.generations, null),
      ...branchInfo(rollout),
      ...(rollout.metricErrors === undefined
        ? {}
        : { metric_errors: Object.fromEntries(Object.entries(rollout.metricErrors).map(([name, text]) => [name, redact(text)])) }),
    },
    is_completed: true,
    ok: error === null,
    // The only name of ours that verifiers reads: a rollout whose context is full is truncated.
    stop_condition: stop === 'prompt_too_long' ? 'max_total_tokens' : stop,
    is_timeout: isTimeout(error),
    timing: timingOf(timing),
  };
}

/** Those of all branches; of two of one name the later one, as in verifiers. */
function offeredTools({ tools, branches }: RecordedRun): readonly WireTool[] {
  return [
    ...new Map([tools, ...branches.map((branch) => branch.tools)].flatMap((some) => toolsOnWire(some).map((tool) => [tool.name, tool]))).values(),
  ];
}

/** Of each branch what it left and why, and the number of its own turns, which are the next sampled nodes. */
function branchInfo({ branches }: RecordedRun): Readonly<Record<string, unknown>> {
  if (branches.length < 2) return {};
  return { branches: branches.map((branch) => ({ ...branchFactColumns(branch), ...ownColumns(branch), turns: branch.generations.length })) };
}

/** Rewards whose weighted sum is the reward, and metrics. */
function scores(
  { reward, metrics, metricErrors = {} }: RecordedRun,
  weights: ReadonlyMap<string, number>,
): Pick<WireTraceFields, 'rewards' | 'metrics'> {
  const names = [...weights].filter(([, weight]) => weight !== 0);
  if (reward === null) {
    const unweighted = [...weights].filter(([, weight]) => weight === 0);
    return { rewards: nulls(names), metrics: nulls(unweighted) };
  }
  const failed = nulls(Object.entries(metricErrors));
  const scored = names.filter(([name]) => name in metrics);
  const sum = scored.reduce((total, [name, weight]) => total + weight * metrics[name]!, 0);
  // A rubric that computes its reward in its own way, or gives one name several weights.
  if (!isNearly(sum, reward)) return { rewards: { reward: { score: reward, weight: 1 } }, metrics: { ...metrics, ...failed } };
  const unweighted = Object.entries(metrics).filter(([name]) => (weights.get(name) ?? 0) === 0);
  return {
    rewards: Object.fromEntries(scored.map(([name, weight]) => [name, { score: metrics[name]!, weight }])),
    metrics: { ...Object.fromEntries(unweighted), ...failed },
  };
}

function nulls(entries: readonly (readonly [string, unknown])[]): Record<string, null> {
  return Object.fromEntries(entries.map(([name]) => [name, null]));
}

function isNearly(one: number, other: number): boolean {
  return Math.abs(one - other) <= 1e-9 * Math.max(1, Math.abs(one), Math.abs(other));
}

/** The phases one after the other; in truth the model and the environment alternate. */
function timingOf({ startedAtMs, setupMs, generationMs, environmentMs, scoringMs }: Rollout['timing']): WireTraceFields['timing'] {
  const start = startedAtMs / 1000;
  const agent = start + setupMs / 1000;
  const scoring = agent + (generationMs + environmentMs) / 1000;
  return {
    start,
    setup: { start, end: agent },
    agent: { start: agent, end: scoring, model: { duration: generationMs / 1000 }, harness: { duration: environmentMs / 1000 } },
    scoring: { start: scoring, end: scoring + scoringMs / 1000 },
  };
}
