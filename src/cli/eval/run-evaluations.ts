/** Plays all runs of the command line, one after the other, and decides the exit code. */
import { type Summary, summaryToWire } from '../../schemas/summary.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { loadEnvironmentFile } from '../environment-file.ts';
import type { Arguments } from './arguments.ts';
import { planRuns } from './plan-runs.ts';
import { type EvaluationOutcome, rolesOf, runEvaluation } from './run-evaluation.ts';
import { SharedRoles, UnknownSharedRoleError } from './shared-roles.ts';
import type { PlannedRun } from './toml-config.ts';

export interface RunEvaluationsOptions {
  readonly arguments: Arguments;
  readonly context: CommandContext;
  readonly packageVersion: string;
}

/** Throws the error of a single run. With several runs, reports a run that fails and starts the next one. */
export async function runEvaluations({ arguments: given, context, packageVersion }: RunEvaluationsOptions): Promise<number> {
  loadEnvironmentFile('.env', process.env);
  const { runs, file } = await planRuns(given);
  const sharedRoles = new SharedRoles(runs, (run) => rolesOf(run, context.signal));
  const json: object[] = [];
  let code: number = EXIT.done;
  for (const [i, run] of runs.entries()) {
    if (context.signal.aborted) break;
    if (runs.length > 1)
      context.note(`${i === 0 ? '' : '\n'}run ${i + 1} of ${runs.length}: ${run.envId}${run.name === null ? '' : ` (${run.name})`}`);
    try {
      const outcome = await runEvaluation(run, { context, packageVersion, sharedRoles, words: given.words });
      if (outcome === null) continue;
      json.push(jsonOf(run, outcome));
      code = Math.max(code, exitCode(outcome.summary));
      // On a terminal a blank line separates the summary from the notes above it.
      if (!run.settings.json) process.stdout.write(`${process.stdout.isTTY ? '\n' : ''}${outcome.text}${i < runs.length - 1 ? '\n' : ''}`);
    } catch (error) {
      if (runs.length === 1 || context.signal.aborted || error instanceof UnknownSharedRoleError) throw error;
      context.report(error);
      code = Math.max(code, error instanceof Error && error.name === 'ConfigError' ? EXIT.usage : EXIT.failed);
    }
  }
  if (given.settings.json && !given.settings['dry-run']) {
    process.stdout.write(`${JSON.stringify(file === null ? json[0] : { runs: json })}\n`);
  }
  return code;
}

/** Failed rollouts are data, but a run with only failed rollouts has failed. */
function exitCode({ rollouts, cost }: Summary): number {
  if (cost?.limitReached === true) return EXIT.costReached;
  return rollouts.recorded > 0 && rollouts.finished === 0 ? EXIT.failed : EXIT.done;
}

function jsonOf(run: PlannedRun, { summary, facts }: EvaluationOutcome): object {
  return { ...(run.name === null ? {} : { name: run.name }), ...facts, ...summaryToWire(summary) };
}
