/** Describes the changes of a scoring. */
import type { ScoreResult } from '../../evaluate/score-options.ts';
import type { WireMetadata } from '../../schemas/results.ts';
import { displayPath, nearbyPath, ownCommand } from '../text/own-command.ts';
import { countText, meanText, plural } from '../text/number-text.ts';
import { factLines } from '../text/report.ts';

/** A run whose rollouts were scored again. */
export interface ScoredRun {
  /** As the user named it. */
  readonly run: string;
  /** The run with the scores. */
  readonly directory: string;
  readonly result: ScoreResult;
  readonly after: WireMetadata;
}

export function scoredText({ run, directory, result, after }: ScoredRun): string {
  const { before, scored, changed, failures, unplayed, unsaved, left, repeated, isReplaced } = result;
  const reward = `${meanText(before.avg_reward)}${before.avg_reward === after.avg_reward ? '' : ` → ${meanText(after.avg_reward)}`}`;
  const lines: [label: string, text: string][] = [
    ...(after.name === undefined ? [] : [['name', after.name] as [string, string]]),
    ['scored', `${plural(scored, 'rollout')}, ${countText(changed)} with another score`],
    ...leftOut('left', left, 'as they were: this scoring does not cover them'),
    ...leftOut('left', unplayed, 'failed before their rewards: vf-eval -R plays them again'),
    ...leftOut('left', unsaved, 'recorded without how they ended'),
    ...[...Map.groupBy(failures, ({ type, message }) => `${type}: ${message}`)]
      .slice(0, 5)
      .map(([text, all]): [string, string] => ['failed', `${countText(all.length)} × ${text}`]),
    ['reward', `${reward} over ${plural(after.num_finished, 'finished rollout')}`],
    ...changedMetrics(before, after),
    ...(after.complete ? [] : [['incomplete', incompleteText(run, after)] as [string, string]]),
    ...repeated.map((note): [string, string] => ['note', note]),
    ['results', displayPath(directory)],
  ];
  const notDone = isReplaced
    ? ''
    : `Nothing was changed: ${countText(failures.filter(({ hadScore }) => hadScore).length)} of the rollouts that have a score could not be scored. Run the same command again: it scores only those.\n`;
  return `${factLines(lines).join('\n')}\n${notDone}`;
}

function incompleteText(run: string, { num_finished: finished, num_errored: failed, num_planned: planned }: WireMetadata): string {
  return `${countText(finished + failed)} of ${plural(planned, 'rollout')} are on file. ${ownCommand('vf-eval', ['-R', nearbyPath(run)])} plays the rest; then score the run again`;
}

function leftOut(label: string, n: number, why: string): [string, string][] {
  return n === 0 ? [] : [[label, `${countText(n)} ${why}`]];
}

function changedMetrics(before: WireMetadata, after: WireMetadata): [string, string][] {
  const names = [...new Set([...Object.keys(before.avg_metrics), ...Object.keys(after.avg_metrics)])];
  const value = (of: WireMetadata, name: string) => of.avg_metrics[name] ?? null;
  return names
    .filter((name) => value(before, name) !== value(after, name))
    .map((name): [string, string] => ['metric', `${name} ${meanText(value(before, name))} → ${meanText(value(after, name))}`]);
}

export function scoredJson({ directory, result, after }: ScoredRun): object {
  const { before, scored, changed, failures, unplayed, unsaved, left, isReplaced } = result;
  return {
    directory,
    replaced: isReplaced,
    scored,
    changed,
    failed: failures.map(({ rolloutId, type, message, hadScore }) => ({ rollout_id: rolloutId, error: type, message, had_score: hadScore })),
    failed_before_rewards: unplayed,
    not_saved: unsaved,
    not_asked_for: left,
    complete: after.complete,
    reward: { before: before.avg_reward, after: after.avg_reward },
    metrics: { before: before.avg_metrics, after: after.avg_metrics },
  };
}
