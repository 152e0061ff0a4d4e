/** Plays all runs of the command line, one after the other, and decides the exit code. */
import { type Summary, summaryToWire } from '../../schemas/summary.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { packageVersion } from '../../data/package-root.ts';
import { loadEnvironmentFile } from '../../sessions/environment/environment-file.ts';
import { displayPath } from '../../reports/text/own-command.ts';
import { paintFor } from '../../reports/text/paint.ts';
import { compareSweep, type PlayedRun, type SweepComparison, sweepText, sweepToWire } from '../../reports/evaluation/compare-sweep.ts';
import type { Argument, Invocation } from '../options/define-command.ts';
import type { EVAL_OPTIONS } from './eval-options.ts';
import { isFileOfRuns, planRuns } from './plan-runs.ts';
import { checkPushTargets, openResultsPush, pushResults } from './push-results.ts';
import { type EvaluationOutcome, runEvaluation } from './run-evaluation.ts';
import { SharedRoles, UnknownSharedRoleError } from './shared-roles.ts';
import { jsonLine, printable } from '../../reports/text/terminal-text.ts';

type Asked = Invocation<typeof EVAL_OPTIONS, { readonly environment: Argument<string> }>;

/** Throws the error of a single run. With several runs, reports a run that fails and starts the next one. */
export async function runEvaluations({ arguments: { environment: target }, options, wordsWithout, context }: Asked): Promise<number> {
  loadEnvironmentFile('.env', process.env);
  const said = { context, packageVersion: packageVersion(), words: wordsWithout('resume') };
  const runs = await planRuns(target, options);
  checkPushTargets(runs);
  const sharedRoles = new SharedRoles(runs, context);
  const json: object[] = [];
  const played: PlayedRun[] = [];
  let code: number = EXIT.done;
  for (const [i, run] of runs.entries()) {
    if (context.signal.aborted) break;
    if (runs.length > 1)
      context.note(`${i === 0 ? '' : '\n'}run ${i + 1} of ${runs.length}: ${run.envId}${run.name === null ? '' : ` (${run.name})`}`);
    try {
      const push = await openResultsPush(run, context);
      const outcome = await runEvaluation(run, { ...said, sharedRoles });
      if (outcome.summary === null) {
        code = Math.max(code, outcome.isWell ? EXIT.done : EXIT.usage);
        continue;
      }
      json.push(jsonOf(outcome));
      const { directory, rollouts, complete, name } = outcome.summary;
      if (rollouts.recorded > 0) played.push({ name: name ?? `run ${i + 1}`, directory });
      const isLast = i === runs.length - 1;
      // With -R, a file of runs starts its finished runs again.
      if (isLast && isFileOfRuns(target)) context.continueWith = null;
      if (complete && isLast && push === null) context.saved = played.map((each) => displayPath(each.directory)).join(', ');
      code = Math.max(code, exitCode(outcome.summary));
      // On a terminal a blank line separates the summary from the notes above it.
      if (!run.settings.json) process.stdout.write(`${process.stdout.isTTY ? '\n' : ''}${printable(outcome.text)}${isLast ? '' : '\n'}`);
      if (push !== null) code = Math.max(code, await pushResults(push, outcome, said));
    } catch (error) {
      if (runs.length === 1 || context.signal.aborted || error instanceof UnknownSharedRoleError) throw error;
      context.report(error);
      code = Math.max(code, error instanceof Error && error.name === 'ConfigError' ? EXIT.usage : EXIT.failed);
    }
  }
  const comparisons = await comparisonsOf(played, context);
  if (options.json && !options.dryRun) {
    const compared = comparisons.length === 0 ? {} : { comparisons: comparisons.map(sweepToWire) };
    process.stdout.write(jsonLine(isFileOfRuns(target) ? { runs: json, ...compared } : json[0]));
  } else {
    const view = { columns: Math.max(100, process.stdout.columns ?? 0), paint: paintFor(process.stdout, { plain: options.plain === true }) };
    for (const comparison of comparisons) process.stdout.write(printable(context.redact(`\n${sweepText(comparison, view)}`)));
  }
  return code;
}

/** Runs that cannot be compared are not failures. */
async function comparisonsOf(played: readonly PlayedRun[], context: CommandContext): Promise<readonly SweepComparison[]> {
  if (played.length < 2 || context.signal.aborted) return [];
  try {
    return await compareSweep(played);
  } catch (error) {
    context.report(error);
    return [];
  }
}

/** Failed rollouts are data, but a run with only failed rollouts has failed. */
function exitCode({ rollouts, cost }: Summary): number {
  if (cost?.limitReached === true) return EXIT.costReached;
  return rollouts.recorded > 0 && rollouts.finished === 0 ? EXIT.failed : EXIT.done;
}

function jsonOf({ summary, facts }: EvaluationOutcome): object {
  return { ...facts, ...summaryToWire(summary) };
}
