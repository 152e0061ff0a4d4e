/** The body of `vf-train`: shows a training while it runs, then prints its summary or pushes its adapter. */
import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { ConfigError, ResultsError } from '../../core/errors.ts';
import { readSettingHistory } from '../../trainer/records/setting-history.ts';
import { announcedLines } from '../../reports/training/announce-run.ts';
import { resumeCommand } from '../../reports/training/next-training-commands.ts';
import { displayPath } from '../../reports/text/own-command.ts';
import { paintFor } from '../../reports/text/paint.ts';
import { escapeControls, printable } from '../../reports/text/terminal-text.ts';
import { engineThreads, addressNotice } from '../../sessions/engine/address-notice.ts';
import { collectGarbage, collectGarbageInTime, keepHeapSmall } from '../../sessions/engine/spare-memory.ts';
import { usesEngine } from '../../sessions/policy/local-base.ts';
import { finishedRun } from '../../sessions/training/finished-run.ts';
import { planAblations } from '../../sessions/training/plan-ablations.ts';
import { renderConfig } from '../../reports/training/render-config.ts';
import { resolveTraining, type TrainingSetup } from '../../sessions/training/resolve-training.ts';
import { type EndedTraining, runTraining, type TrainingHost, type TrainingWatch } from '../../sessions/training/run-training.ts';
import { totalSteps } from '../../trainer/config/training-schedule.ts';
import { readBest } from '../../trainer/records/best-version.ts';
import { readMetrics } from '../../trainer/records/metrics-journal.ts';
import type { TrainingDirectory } from '../../trainer/records/training-directory.ts';
import { joinObservers } from '../../trainer/training-observer.ts';
import { type CommandContext, EXIT, isUnderRounds } from '../command-line.ts';
import type { TrainArguments, TrainDisplay } from './train-arguments.ts';
import { withFlags } from './key-flags.ts';
import { LiveView } from './live-view.ts';
import { checkPushTarget } from '../push.ts';
import { openAdapterPush, pushAdapter, pushFinished } from './push-adapter.ts';

/** @param words those of the command line without -R */
export async function runTrain(given: TrainArguments, context: CommandContext, words: readonly string[]): Promise<number> {
  const { action, display } = given;
  const resolving = { variables: process.env, signal: context.signal };
  const ablations = await planAblations(given, resolving);
  if (ablations !== null) return (await import('./run-ablations.ts')).runAblations(ablations, { given, context, words });
  const setup = await resolveTraining(given, resolving);
  const { config } = setup;
  for (const secret of setup.secrets) context.secrets.add(secret);
  if (action === 'show-config') {
    process.stdout.write(printable(renderConfig(setup, { secrets: [...setup.secrets] })));
    return EXIT.done;
  }
  if (given.push !== null) checkPushTarget(given.push.target, 'a model');
  if (given.push !== null && config.backend.kind === 'tinker')
    throw new ConfigError(
      '--push needs the files of the adapter, which stays at the training service. Leave it out; vf-export --adapter writes the files after the run.',
    );
  const finished = action === 'dry-run' ? null : await finishedRun(setup);
  if (finished !== null) {
    const { reportFinished } = await import('./report-training.ts');
    if (given.push === null) noteSaved(finished.outcome.directory, context);
    await reportFinished(finished, setup, { display, note: context.note });
    return given.push === null ? EXIT.done : pushFinished(given.push, { config, ...adaptersOf(finished), context });
  }
  const push = await openAdapterPush(given.push, context);
  if (action === 'dry-run') {
    const { dryTraining } = await import('./dry-training.ts');
    return dryTraining(setup, { gpuPrice: given.gpuPrice, push }, context);
  }
  let code: number = EXIT.done;
  const { outcome, cost } = await runTraining(setup, {
    ...trainingHost(setup, display, context),
    conclude: async (ended) => {
      // The engine is closed, and drawing needs as much memory as the engine did.
      if (usesEngine(config)) collectGarbage();
      const { reportTraining } = await import('./report-training.ts');
      if (push === null && ended.outcome.reason === 'finished') noteSaved(ended.outcome.directory, context);
      await reportTraining(ended, { display, note: context.note, redact: context.redact });
    },
    // Called while the run is still locked: another process must not continue it while its files are read.
    onFinished: async (ended) => {
      if (push !== null) code = await pushAdapter(push, { config, ...adaptersOf(ended), context });
    },
    onFailure: async (error, directory) => {
      // After a ConfigError the user must fix the configuration first.
      if (error instanceof ConfigError || isUnderRounds() || !existsSync(directory.paths.run) || !(await directory.holdsWork())) return;
      if (push !== null) context.note(NOT_PUSHED);
      // A file that is damaged or cannot be written stays so: the error, which follows, says what to do first.
      const first = error instanceof ResultsError ? 'correct what the error names, then ' : '';
      context.note(`vf-train: all work so far is kept; ${first}continue this run with ${resumeCommand(directory.path)}`);
    },
  });
  if (outcome.reason === 'finished') {
    noteSaved(outcome.directory, context);
    return code;
  }
  if (push !== null) context.note(NOT_PUSHED);
  if (outcome.reason === 'interrupted') return EXIT.interrupted;
  return cost?.limitReached === true ? EXIT.costReached : EXIT.failed;
}

function noteSaved(directory: string, context: CommandContext): void {
  context.saved = displayPath(directory);
  if (!isUnderRounds()) context.continueWith = resumeCommand(directory, ['--json']);
}

const NOT_PUSHED = 'vf-train: the run has not finished, so nothing was pushed; with -R and --push it is pushed at its end';

/** The parts of this process that a run uses, and its display. */
export function trainingHost(setup: TrainingSetup, display: TrainDisplay, context: CommandContext): TrainingHost {
  return {
    ...context,
    variables: process.env,
    warn: (line) => context.note(`vf-train: ${withFlags(line)}`),
    watch: (directory) => watchRun(directory, setup, display, context),
  };
}

function adaptersOf({ outcome: { directory, adapter }, paths }: Pick<EndedTraining, 'outcome' | 'paths'>) {
  return { directory, last: adapter, best: readBest(paths.best)?.adapter ?? null };
}

/** Begins with the rows that a resumed run has on file. */
async function watchRun(
  directory: TrainingDirectory,
  { config, notices, resumeDirectory }: TrainingSetup,
  display: TrainDisplay,
  context: CommandContext,
): Promise<TrainingWatch> {
  const { stderr } = process;
  const paint = paintFor(stderr, { plain: display.plain });
  const isPlain = display.plain || !stderr.isTTY;
  const view = new LiveView({
    plain: isPlain,
    paint,
    verbose: display.verbose,
    redact: context.redact,
    stream: stderr,
    name: config.name,
    directory: relative(process.cwd(), directory.path) || '.',
    steps: totalSteps(config),
    rows: resumeDirectory === null ? [] : await readMetrics(directory.paths.metrics),
  });
  context.continueWith = isUnderRounds() ? null : resumeCommand(directory.path, display.json ? ['--json'] : []);
  // The run's summary has it.
  context.onUncaught = () => {};
  context.onInterrupt = () => view.note('vf-train: stopping; all work so far is kept. Press Ctrl-C again to stop at once');
  const note: TrainingWatch['note'] = (line, style) => view.note(escapeControls(context.redact(withFlags(line))), style);
  const warn: TrainingWatch['warn'] = (line) => note(`vf-train: ${line}`);
  const { changed } = (await readSettingHistory(directory.paths.events)).through({ optimizer: config.optimizer, sft: config.sft }, Infinity);
  context.aside = (line) => note(line);
  let isAnnounced = false;
  const announce = () => {
    if (isAnnounced) return;
    isAnnounced = true;
    announcedLines(config, directory.path, changed).forEach((line) => note(line, 'dim'));
  };
  for (const notice of notices) note(notice);
  // In plain mode the announcement waits for the first event, so that a run that cannot start prints only its error.
  if (!isPlain) announce();
  if (usesEngine(config)) prepareEngine(config, note);
  const collect = () => void (usesEngine(config) && collectGarbageInTime());
  return {
    // An evaluation of a thousand rollouts makes more garbage than a step.
    observer: joinObservers([{ onEvent: announce }, view, { onRollouts: collect, onStep: collect }]),
    note,
    warn,
    transcripts: { columns: Math.min(stderr.columns || 80, 100) - 1, paint, note },
    onOpened: ({ evaluationLabel }) => view.nameEvaluations(evaluationLabel),
    close: () => {
      context.aside = null;
      context.onUncaught = null;
      view.close();
    },
  };
}

function prepareEngine({ policy, backend }: TrainingSetup['config'], note: (line: string) => void): void {
  keepHeapSmall();
  const threads = policy.embedded?.threads ?? backend.threads;
  const addresses = addressNotice(engineThreads(threads === null ? {} : { threads }));
  if (addresses !== null) note(`vf-train: ${addresses}`);
}
