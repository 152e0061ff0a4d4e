/** `--push`: uploads a finished run as a data set with a card. */
import { ConfigError } from '../../core/errors.ts';
import type { HubPush } from '../../data/hub-push.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { checkPushTarget, openPush, upload } from '../push.ts';
import { shellCommand, withoutOptions } from '../../reports/text/own-command.ts';
import { resumeCommand } from '../../reports/evaluation/next-commands.ts';
import { resultsFiles } from '../../reports/evaluation/results-files.ts';
import type { EvaluationOutcome } from './run-evaluation.ts';
import type { PlannedRun } from './toml-config.ts';

/** Throws ConfigError for a target that is not a name, and for two runs with one target, because the second would replace the first. */
export function checkPushTargets(runs: readonly PlannedRun[]): void {
  const seen = new Set<string>();
  for (const { settings } of runs) {
    const { push } = settings;
    if (push === undefined) continue;
    checkPushTarget(push, 'a data set');
    if (seen.has(push))
      throw new ConfigError(`Two runs push to ${push}, and the second would replace the first. Give each [[eval]] a push of its own.`);
    seen.add(push);
  }
}

/** Asks the hub before the run. Null without --push. */
export async function openResultsPush({ settings }: PlannedRun, context: CommandContext): Promise<HubPush | null> {
  return settings.push === undefined ? null : openPush({ type: 'dataset', name: settings.push }, context);
}

export interface PushResultsOptions {
  readonly context: CommandContext;
  readonly packageVersion: string;
  /** The arguments of the command, without -R. */
  readonly words: readonly string[];
}

/** Returns the exit code. A push that fails is reported and does not change the run. */
export async function pushResults(push: HubPush, { summary, facts }: EvaluationOutcome, options: PushResultsOptions): Promise<number> {
  const { context, packageVersion, words } = options;
  const { name, directory, complete, envId, model } = summary;
  if (!complete) {
    context.note('vf-eval: the run is not complete, so nothing was pushed; with -R and --push it is pushed at its end');
    return EXIT.done;
  }
  const command = context.redact(shellCommand(['npx', 'vf-eval', ...withoutOptions(words, ['--push'])]));
  const files = await resultsFiles({ summary, facts, packageVersion, command, redact: context.redact });
  const title = `Add ${name ?? `${envId} of ${model}`} (vf-search ${packageVersion})`;
  const failed = `the results are saved; this pushes them again: ${resumeCommand(words, directory)}`;
  return upload(push, { files, title, command: 'vf-eval', failed }, context);
}
