/** The figures of recorded rollouts. Pure: the same rollouts in the same order give the same summary. */
import { IMAGE_MARK } from '../core/message.ts';
import { forkFigures } from '../rollouts/fork-figures.ts';
import { requestFigures } from '../rollouts/request-figures.ts';
import type { WireAskedLine } from '../schemas/asked-line.ts';
import type { WireMessage } from '../schemas/branch-columns.ts';
import type { WireResult } from '../schemas/results.ts';
import type { Estimate, SampleTranscript, Summary } from '../schemas/summary.ts';
import type { MetricDisplay } from '../core/rubric.ts';
import type { RecordedRollout } from './recorded-rollout.ts';
import { estimateChance, type ByExample, estimate, estimateMean, estimateShare, passAllK, passAtK, powersOfTwo } from '../core/statistics.ts';

/** Rewards from here up are passes. (verifiers v0: `pass_threshold`) */
export const PASS_THRESHOLD = 0.5;

export type Figures = Omit<
  Summary,
  'envId' | 'model' | 'policyKind' | 'directory' | 'wallSeconds' | 'waitedSeconds' | 'rolloutsPerSecond' | 'sample' | 'notices'
>;

export interface FiguresOptions {
  /** Number of rollouts of the whole run. */
  readonly planned: number;
  readonly rolloutsPerExample: number;
  /** The way the rubric's metrics are shown. @default each by its values */
  readonly displays?: ReadonlyMap<string, MetricDisplay>;
}

export function figures(rollouts: readonly RecordedRollout[], options: FiguresOptions): Figures {
  const finished = rollouts.filter((r) => r.error === null);
  const failed = rollouts.filter((r) => r.error !== null);
  const groups = [...Map.groupBy(finished, (r) => r.groupId).values()];
  const by = (of: (r: RecordedRollout) => number | null | undefined): ByExample =>
    groups.map((g) => g.map(of).filter((v) => v !== null && v !== undefined));
  const { displays = new Map<string, MetricDisplay>() } = options;
  const tasks = taskFigures(finished, displays);
  const passes = passEstimates(groups, options);
  return {
    complete: rollouts.length >= options.planned,
    rollouts: { planned: options.planned, recorded: rollouts.length, finished: finished.length, errored: failed.length },
    examples: groups.length,
    rolloutsPerExample: options.rolloutsPerExample,
    reward: estimate(by((r) => r.reward)),
    turns: estimateMean(by((r) => r.turns)),
    metrics: metricEstimates(finished, by, displays),
    ...(tasks === null ? {} : { tasks }),
    stopConditions: tally(rollouts.map((r) => r.stop)),
    truncated: estimateShare(by((r) => Number(r.isTruncated))),
    guessedStops: sum(rollouts.map((r) => r.guessedStops ?? 0)),
    errors: tally(failed.map((r) => r.error!.type)),
    ...reasons(failed),
    errorExamples: Object.fromEntries(failed.toReversed().map((r) => [r.error!.type, r.error!.message])),
    ...forkFigures(rollouts),
    ...requestFigures(rollouts),
    tokens: tokenTotals(rollouts),
    prefixBreaks: failed.filter((r) => r.error!.type === 'PrefixBreakError').length,
    passAtK: passes.atK,
    passAllK: passes.allK,
    passThreshold: PASS_THRESHOLD,
  };
}

export function sampleTranscript(result: WireResult | null, asked: WireAskedLine['asked'] | null = null): SampleTranscript | null {
  if (result === null) return null;
  return {
    exampleId: result.example_id,
    rolloutIndex: result.rollout_index,
    prompt: result.prompt.map(shownMessage),
    segments: result.segments,
    ...branchesOf(result),
    answer: result.answer ?? result.info ?? null,
    ...(asked === null ? {} : { asked: asked.map(({ role, text }) => ({ role, text })) }),
    reward: result.reward,
    stopCondition: result.stop_condition,
  };
}

/** None if the segments are texts that an agent gave: they belong to no branch. */
function branchesOf({ branches = [] }: WireResult): Pick<SampleTranscript, 'branches'> {
  if (branches.length < 2 || branches.some(({ played }) => played !== undefined)) return {};
  const shown = branches.map(({ segments, role, parent, fork, prompt }) => ({
    segments,
    parent,
    fork,
    ...(role === undefined ? {} : { role }),
    ...(prompt === undefined ? {} : { prompt: prompt.map(shownMessage) }),
  }));
  return { branches: shown };
}

/** A recorded message as text, with a mark for each image. */
function shownMessage({ role, content, parts }: WireMessage): { readonly role: string; readonly content: string } {
  return { role, content: parts === undefined ? content : parts.map((part) => (part.type === 'text' ? part.text : IMAGE_MARK)).join('') };
}

/** By task, in the order in which the rollouts bring them; null if rows have no tasks. */
function taskFigures(finished: readonly RecordedRollout[], displays: ReadonlyMap<string, MetricDisplay>): NonNullable<Summary['tasks']> | null {
  const byTask = Map.groupBy(
    finished.filter(({ task }) => task !== null),
    ({ task }) => task!,
  );
  if (byTask.size === 0) return null;
  const entries = [...byTask].map(([task, rollouts]) => {
    const groups = [...Map.groupBy(rollouts, (r) => r.groupId).values()];
    const by = (of: (r: RecordedRollout) => number | null | undefined): ByExample =>
      groups.map((g) => g.map(of).filter((v) => v !== null && v !== undefined));
    return [task, { finished: rollouts.length, reward: estimate(by((r) => r.reward)), metrics: metricEstimates(rollouts, by, displays) }] as const;
  });
  return Object.fromEntries(entries);
}

function metricEstimates(
  finished: readonly RecordedRollout[],
  by: (of: (r: RecordedRollout) => number | undefined) => ByExample,
  displays: ReadonlyMap<string, MetricDisplay>,
): Record<string, Estimate> {
  const names = [...new Set(finished.flatMap((r) => Object.keys(r.metrics)))];
  const estimates = names.map((name) => {
    const values = by((r) => r.metrics[name]);
    return [name, displays.get(name)?.isCount === true ? estimateMean(values) : estimate(values)];
  });
  return Object.fromEntries(estimates) as Record<string, Estimate>;
}

/** For each k, over the examples with at least k finished rollouts. `groups` has the finished ones of each example. */
export function passEstimates(
  groups: readonly (readonly RecordedRollout[])[],
  { rolloutsPerExample }: Pick<FiguresOptions, 'rolloutsPerExample'>,
): Record<'atK' | 'allK', Record<string, Estimate>> {
  const atK: Record<string, Estimate> = {};
  const allK: Record<string, Estimate> = {};
  if (rolloutsPerExample < 2) return { atK, allK };
  for (const k of powersOfTwo(rolloutsPerExample)) {
    const counts = groups.filter((g) => g.length >= k).map((g) => [g.length, g.filter((r) => r.reward! >= PASS_THRESHOLD).length] as const);
    const rollouts = sum(counts.map(([n]) => n));
    const at = estimateChance(
      counts.map(([n, passed]) => passAtK(n, passed, k)),
      rollouts,
    );
    const all = estimateChance(
      counts.map(([n, passed]) => passAllK(n, passed, k)),
      rollouts,
    );
    if (at) atK[k] = at;
    if (all) allK[k] = all;
  }
  return { atK, allK };
}

function tokenTotals(rollouts: readonly RecordedRollout[]): Summary['tokens'] {
  const input = sum(rollouts.map(({ usage }) => usage.inputTokens));
  const output = sum(rollouts.map(({ usage }) => usage.outputTokens));
  const cached = rollouts.map(({ usage }) => usage.cachedTokens).filter((c) => c !== null);
  const n = rollouts.length;
  return {
    input,
    output,
    cached: n === 0 || cached.length < n ? null : sum(cached),
    inputPerRollout: n === 0 ? null : input / n,
    outputPerRollout: n === 0 ? null : output / n,
  };
}

function reasons(failed: readonly RecordedRollout[]): Pick<Summary, 'errorReasons'> {
  const named = failed.flatMap(({ error }) => (error?.reason === undefined ? [] : [{ type: error.type, reason: error.reason }]));
  if (named.length === 0) return {};
  const byType = [...Map.groupBy(named, ({ type }) => type)].map(([type, all]) => [type, tally(all.map(({ reason }) => reason))] as const);
  return { errorReasons: Object.fromEntries(byType) };
}

/** Counts each value, most frequent first, then by name. */
function tally(values: readonly string[]): Record<string, number> {
  const counts = [...Map.groupBy(values, (v) => v)].map(([value, all]) => [value, all.length] as const);
  return Object.fromEntries(counts.toSorted(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)));
}

function sum(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0);
}
