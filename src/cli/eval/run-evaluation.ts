/** Runs one evaluation of the command line: shows its progress and notices on stderr and renders its summary. */
import type { Summary } from '../../schemas/summary.ts';
import { ConfigError, PolicyError, RetrievalError } from '../../core/errors.ts';
import type { CommandContext } from '../command-line.ts';
import { plural } from '../../reports/text/number-text.ts';
import { noPaint, paintFor } from '../../reports/text/paint.ts';
import { escapeControls, printable } from '../../reports/text/terminal-text.ts';
import { resumeCommand } from '../../reports/evaluation/next-commands.ts';
import { describeRun, type RunFacts, summaryText } from '../../reports/evaluation/describe-run.ts';
import { displayPath } from '../../reports/text/own-command.ts';
import { evaluationNotices, type OpenedEvaluation, openEvaluation } from '../../sessions/evaluation/open-evaluation.ts';
import { evaluationTransport } from '../../sessions/evaluation/evaluation-transport.ts';
import { playEvaluation } from '../../sessions/evaluation/play-evaluation.ts';
import { evaluationDryRun } from '../../sessions/evaluation/evaluation-dry-run.ts';
import { checkEvaluation } from '../../doctor/check-evaluation.ts';
import { type Finding, ok } from '../../sessions/finding.ts';
import { checkedLines, isWell } from '../doctor/render-findings.ts';
import { withTransport } from '../../transport/transport-settings.ts';
import { evaluationRequest, FLAG_NAMES } from './evaluation-request.ts';
import { noteEnding } from './note-ending.ts';
import { Progress } from './progress.ts';
import type { SharedRoles } from './shared-roles.ts';
import type { PlannedRun } from './toml-config.ts';

export interface RunSurroundings {
  readonly context: CommandContext;
  readonly packageVersion: string;
  /** Chooses which roles of a file apply to the run. */
  readonly sharedRoles: SharedRoles;
  /** The arguments of the command, without -R. */
  readonly words: readonly string[];
}

export interface EvaluationOutcome {
  readonly summary: Summary;
  /** The rendered summary. */
  readonly text: string;
  readonly facts: RunFacts;
}

/** A dry run only prints what would run and what was checked. */
export interface DryOutcome {
  readonly summary: null;
  readonly isWell: boolean;
}

export function runEvaluation(planned: PlannedRun, surroundings: RunSurroundings): Promise<EvaluationOutcome | DryOutcome> {
  const { variables } = surroundings.context;
  return withTransport(evaluationTransport(evaluationRequest(planned), { variables, names: FLAG_NAMES }), () => play(planned, surroundings));
}

async function play(planned: PlannedRun, surroundings: RunSurroundings): Promise<EvaluationOutcome | DryOutcome> {
  const { context, packageVersion, sharedRoles, words } = surroundings;
  const { settings } = planned;
  const session = {
    variables: context.variables,
    warn: context.warn,
    secrets: context.secrets,
    signal: context.signal,
    names: FLAG_NAMES,
    packageVersion,
    isDry: settings.dryRun === true,
    rolesFor: (declared: readonly string[]) => sharedRoles.tablesOf(planned, declared),
  };
  const opening = openEvaluation(evaluationRequest(planned), session);
  await using opened = await (settings.dryRun === true ? opening.catch(refuseMissing) : opening);
  if (settings.dryRun === true) {
    announce(opened, context);
    return await dryEvaluation(opened, planned, surroundings);
  }
  const progress = openProgress(planned, opened, context);
  context.aside = (line) => progress.note(context.redact(line));
  context.onInterrupt = () => progress.note('stopping and saving finished rollouts; press Ctrl-C again to stop at once');
  try {
    const { summary, evaluation } = await playEvaluation(opened, session, {
      onStarted: (started, directory) => {
        announce(started, context);
        context.note(startedText(planned, started, directory));
        context.continueWith = resumeCommand(words, directory);
      },
      onEvent: (event) => progress.onEvent(event),
    });
    progress.close();
    noteEnding(summary, context, words);
    const text = summaryText(summary, evaluation, {
      words,
      columns: (process.stdout.isTTY && process.stdout.columns) || 80,
      paint: paintFor(process.stdout, { plain: settings.plain ?? false }),
      abbreviated: settings.abbreviatedSummary ?? false,
      verbose: settings.verbose ?? false,
    });
    return { summary, text: context.redact(text), facts: describeRun(evaluation) };
  } finally {
    progress.close();
    context.aside = null;
    context.onInterrupt = null;
  }
}

/** To a dry run, a server that does not answer is a missing requirement: exit code 2. */
function refuseMissing(error: unknown): never {
  if (error instanceof PolicyError || error instanceof RetrievalError) throw new ConfigError(error.message, { cause: error });
  throw error;
}

async function dryEvaluation(opened: OpenedEvaluation, { name, settings }: PlannedRun, { context }: RunSurroundings): Promise<DryOutcome> {
  const { signal } = context;
  const text = await evaluationDryRun(opened, name, signal);
  const findings: Finding[] = [];
  for await (const finding of checkEvaluation(opened, context)) findings.push(finding);
  // The hub was asked before.
  if (settings.push !== undefined) findings.push(ok('push', `the token may write to ${settings.push}`));
  process.stdout.write(printable(context.redact(`${text}\n${checkedLines(findings).join('\n')}\n`)));
  return { summary: null, isWell: isWell(findings) };
}

function startedText({ envId }: PlannedRun, { request, counts, policy }: OpenedEvaluation, directory: string): string {
  const size = `${plural(counts.rows, 'row')} × ${plural(counts.rolloutsPerRow, 'rollout')}`;
  const named = request.name === undefined ? '' : ` (${escapeControls(request.name)})`;
  return `${envId}${named}: ${size}, ${escapeControls(policy.description ?? 'no model is asked')}; saving to ${displayPath(directory)}`;
}

/** Prints notices before the first rollout; a run that fails earlier prints none. */
function announce(evaluation: OpenedEvaluation, context: CommandContext): void {
  for (const notice of evaluationNotices(evaluation)) context.note(escapeControls(notice));
}

function openProgress({ name, envId, settings }: PlannedRun, { policy }: OpenedEvaluation, context: CommandContext): Progress {
  const plain = Boolean(settings.plain) || !process.stderr.isTTY || context.variables['TERM'] === 'dumb';
  return new Progress({
    stream: process.stderr,
    plain,
    paint: plain ? noPaint : paintFor(process.stderr, { plain }),
    title: `${name === null ? '' : `${name}  `}${envId}  ${policy.model}`,
    verbose: Boolean(settings.verbose),
    redact: context.redact,
  });
}
