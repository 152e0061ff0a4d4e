/** Reports on stderr why a run ended before its last rollout, or that every rollout failed. */
import type { RunCost } from '../../schemas/run-cost.ts';
import type { Summary } from '../../schemas/summary.ts';
import type { CommandContext } from '../command-line.ts';
import { countText, plural, usdText } from '../../reports/text/number-text.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import { noUsageText } from '../../reports/evaluation/cost-text.ts';
import { continueCommand } from '../../reports/evaluation/next-commands.ts';
import { displayPath } from '../../reports/text/own-command.ts';

export function noteEnding(summary: Summary, context: Pick<CommandContext, 'note'>, words: readonly string[]): void {
  const { complete, rollouts, directory, errorExamples, cost } = summary;
  if (!complete) {
    const saved = `${countText(rollouts.recorded)} of ${plural(rollouts.planned, 'rollout')} saved in ${displayPath(directory)}`;
    context.note(cost?.limitReached === true ? `${limitText(cost)}: ${saved}; ${remedyText(cost)}:` : `stopped: ${saved}; to continue:`);
    context.note(`  ${continueCommand(summary, words)}`);
  } else if (rollouts.finished === 0) {
    const [name, example] = Object.entries(errorExamples)[0] ?? ['error', 'unknown'];
    context.note(`vf-eval: every rollout failed: ${escapeControls(`${name}: ${example}`)}`);
  }
}

function limitText({ usd, limit, uncounted }: RunCost): string {
  if (usd !== null) return `stopped at --max-cost ${limit}, after ${usdText(usd)}`;
  return escapeControls(`stopped because --max-cost ${limit} cannot be kept: the cost is unknown, because ${noUsageText(uncounted)}`);
}

function remedyText({ usd }: RunCost): string {
  return usd === null ? 'to continue without a limit' : 'to continue with more';
}
