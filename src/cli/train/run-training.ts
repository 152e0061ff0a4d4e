/** Runs a training from its arguments to its summary: configuration, folder, live view, the run itself, plots. */
import { createHash, randomBytes } from 'node:crypto';
import { basename, relative } from 'node:path';
import { packageVersion } from '../../data/package-root.ts';
import { ConfigError } from '../../core/errors.ts';
import type { RoleStats } from '../../schemas/role-stats.ts';
import type { RunCost } from '../../schemas/run-cost.ts';
import { differenceText } from '../../trainer/config/resume-config.ts';
import { readMetrics } from '../../trainer/records/metrics-journal.ts';
import { totalSteps } from '../../trainer/config/training-schedule.ts';
import { TrainingDirectory } from '../../trainer/records/training-directory.ts';
import { joinObservers } from '../../trainer/training-observer.ts';
import type { TrainingOutcome } from '../../trainer/training-session.ts';
import { collectGarbage, collectGarbageInTime, keepHeapSmall } from '../../sessions/engine/spare-memory.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import { isUnderRounds } from '../under-rounds.ts';
import { addressNotice } from '../address-notice.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { engineThreads } from '../../sessions/engine/engine-threads.ts';
import { paintFor } from '../../reports/text/paint.ts';
import type { TrainArguments } from './arguments.ts';
import { announcedLines } from '../../reports/training/announce-run.ts';
import type { EvaluationLabel } from '../../reports/training/evaluation-label.ts';
import { finishedRun } from '../../sessions/training/finished-run.ts';
import { bestAdapterOf } from '../../sessions/training/best-adapter.ts';
import { LiveView, type LiveViewOptions } from './live-view.ts';
import { resumeCommand } from '../../reports/training/next-training-commands.ts';
import { openAdapterPush, pushAdapter } from './push-adapter.ts';
import { openCurves } from '../../sessions/training/open-curves.ts';
import type { OpenedTraining } from '../../sessions/training/open-training.ts';
import { usesEngine, withLocalBase } from '../../sessions/policy/local-base.ts';
import { resolveTraining, trainingRunsFolder, type TrainingSetup } from '../../sessions/training/resolve-training.ts';
import { renderConfig } from './render-config.ts';
import { trainingCost } from '../../sessions/training/training-cost.ts';
import { Transcripts } from '../../reports/training/transcripts.ts';

export async function runTraining(given: TrainArguments, context: CommandContext): Promise<number> {
  const setup = await resolveTraining(given, { variables: process.env }).catch(async (error: unknown) => {
    const { refuseIncompleteProgram } = await import('../../sessions/training/refuse-program.ts');
    await refuseIncompleteProgram(given, { env: process.env, signal: context.signal });
    throw error;
  });
  for (const secret of setup.secrets) context.secrets.add(secret);
  if (given.action === 'show-config') {
    process.stdout.write(renderConfig(setup, { secrets: [...setup.secrets] }));
    return EXIT.done;
  }
  if (given.action === 'dry-run') {
    const { trainingDryRun } = await import('./training-dry-run.ts');
    process.stdout.write(await trainingDryRun(setup, { variables: process.env, note: context.note, signal: context.signal }));
    return EXIT.done;
  }
  const push = await openAdapterPush(given.push, context);
  const finished = await finishedRun(setup);
  if (finished !== null) {
    const { reportFinished } = await import('./report-training.ts');
    await reportFinished({ ...finished, changes: setup.changes, config: setup.config, display: given.display, note: context.note });
    const { outcome: kept, paths } = finished;
    const adapter = bestAdapterOf(paths) ?? kept.adapter;
    return push === null ? EXIT.done : await pushAdapter(push, { config: setup.config, directory: kept.directory, adapter, context });
  }
  // Before the run has a folder.
  const config = await withLocalBase(setup.config, context);
  await using directory = await openDirectory(setup);
  const { outcome, ...ran } = await runIn(directory, { setup, config }, given, context).catch(async (error: unknown) => {
    // Otherwise -R would resume this run, which never began, as the newest.
    if (setup.resumeDirectory === null) await directory.removeUnused();
    // After a ConfigError the user must fix the configuration first.
    if (!(error instanceof ConfigError) && !isUnderRounds() && (await directory.holdsWork())) {
      context.note(`vf-train: all work so far is kept; continue this run with ${resumeCommand(directory.path)}`);
    }
    throw error;
  });
  // The engine is closed, and drawing needs as much memory as it did.
  if (usesEngine(setup.config)) collectGarbage();
  const { reportTraining } = await import('./report-training.ts');
  const { wire, preset } = setup;
  const { note, redact } = context;
  await reportTraining({ outcome, config: setup.config, wire, preset, paths: directory.paths, ...ran, display: given.display, note, redact });
  if (outcome.reason === 'finished') {
    await directory.finish(new Date());
    if (push === null) return EXIT.done;
    return await pushAdapter(push, {
      config: setup.config,
      directory: directory.path,
      adapter: bestAdapterOf(directory.paths) ?? outcome.adapter,
      context,
    });
  }
  if (push !== null) note('vf-train: the run has not finished, so nothing was pushed; with -R and --push it is pushed at its end');
  if (outcome.reason === 'interrupted') return EXIT.interrupted;
  return ran.cost?.limitReached === true ? EXIT.costReached : EXIT.failed;
}

/** Creates a new folder, or opens the resumed one and updates its configuration. */
async function openDirectory(setup: TrainingSetup): Promise<TrainingDirectory> {
  const { config, resumeDirectory, changes, secrets } = setup;
  const text = renderConfig(setup, { secrets: [...secrets] });
  const configDigest = createHash('sha256').update(JSON.stringify(setup.wire)).digest('hex');
  if (resumeDirectory === null) {
    return TrainingDirectory.create({
      outputDirectory: trainingRunsFolder(config.outputDir),
      name: config.name ?? config.environment.id,
      id: randomBytes(4).toString('hex'),
      config: text,
      configDigest,
      startedAt: new Date(),
    });
  }
  const directory = await TrainingDirectory.open(resumeDirectory);
  if (changes.length > 0) directory.changeConfig({ config: text, configDigest });
  return directory;
}

interface Ran {
  readonly outcome: TrainingOutcome;
  readonly transcripts: string | null;
  readonly evaluationLabel: EvaluationLabel;
  readonly evaluationRows: number;
  readonly roles: ReadonlyMap<string, RoleStats>;
  /** Null where no model can cost anything. */
  readonly cost: RunCost | null;
}

interface Run {
  readonly setup: TrainingSetup;
  /** That of the setup, with the base as a folder of this machine where the embedded engine needs one. */
  readonly config: TrainingSetup['config'];
}

async function runIn(directory: TrainingDirectory, { setup, config }: Run, { display }: TrainArguments, context: CommandContext): Promise<Ran> {
  const { notices } = setup;
  const attempt = attemptName(config.name ?? config.environment.id);
  await directory.beginAttempt({ id: attempt, startedAt: new Date(), packageVersion: packageVersion() });
  const paint = paintFor(process.stderr, { plain: display.plain });
  const isPlain = display.plain || !process.stderr.isTTY;
  const view = await openView(directory, setup, { plain: isPlain, paint, verbose: display.verbose, redact: context.redact });
  context.onInterrupt = () => view.note('vf-train: stopping; all work so far is kept. Press Ctrl-C again to stop at once');
  const configText = await directory.readConfig();
  // A server, a log or an environment may have written it.
  const note = (line: string, style?: 'dim') => view.note(escapeControls(context.redact(line)), style);
  const curves = openCurves({ setup, directory, configText, secrets: context.secrets, note });
  let isFinished = false;
  let transcripts: Transcripts | null = null;
  let isAnnounced = false;
  const announce = () => {
    if (isAnnounced) return;
    isAnnounced = true;
    announcedLines(setup.config, directory.path).forEach((line) => note(line, 'dim'));
  };
  try {
    for (const notice of notices) note(notice);
    // In plain mode the announcement waits for the first event, so that a run that cannot start prints only its error.
    if (!isPlain) announce();
    if (usesEngine(config)) prepareEngine(config, note);
    const { openTraining } = await import('../../sessions/training/open-training.ts');
    await using training = await openTraining({
      config,
      changes: setup.changes.map((change) => context.redact(differenceText(change))),
      isEvaluatedAgain: setup.changes.some(({ key }) => key === 'evaluation.temperature'),
      directory,
      attempt,
      variables: process.env,
      secrets: context.secrets,
      redact: context.redact,
      observer: joinObservers([
        { onEvent: announce },
        view,
        ...curves,
        {
          // An evaluation of a thousand rollouts makes more garbage than a step.
          onRollouts: () => void (usesEngine(config) && collectGarbageInTime()),
          onStep: () => void (usesEngine(config) && collectGarbageInTime()),
          onEvaluation: () => transcripts?.evaluated(),
        },
      ]),
      note,
      signal: context.signal,
    });
    const { evaluationLabel, evaluationRows } = training;
    view.nameEvaluations(evaluationLabel);
    for (const notice of training.notices) note(notice);
    for (const [role, text] of training.roles.descriptions) note(`role ${role}: ${text}`, 'dim');
    const columns = Math.min(process.stderr.columns || 80, 100) - 1;
    transcripts = new Transcripts({ environment: training.run.evaluation, paths: directory.paths, columns, paint, note });
    const { train } = await import('../../trainer/loop/train.ts');
    const outcome = await train(training.run, context.signal);
    isFinished = outcome.reason === 'finished';
    return { outcome, transcripts: await transcripts.finish(), evaluationLabel, evaluationRows, ...spent(training) };
  } finally {
    for (const curve of curves) curve.close({ isFinished });
    view.close();
  }
}

function spent({ roles, prices }: OpenedTraining): Pick<Ran, 'roles' | 'cost'> {
  const { stats } = roles.models;
  return { roles: stats, cost: prices === null ? null : trainingCost(stats, prices) };
}

type ViewLook = Pick<LiveViewOptions, 'plain' | 'paint' | 'verbose' | 'redact'>;

/** Begins with the rows that a resumed run has on file. */
async function openView(directory: TrainingDirectory, { config, resumeDirectory }: TrainingSetup, look: ViewLook): Promise<LiveView> {
  return new LiveView({
    ...look,
    stream: process.stderr,
    name: config.name ?? config.environment.id,
    directory: relative(process.cwd(), directory.path) || '.',
    steps: totalSteps(config),
    rows: resumeDirectory === null ? [] : await readMetrics(directory.paths.metrics),
  });
}

function prepareEngine({ policy, backend }: TrainingSetup['config'], note: (line: string) => void): void {
  keepHeapSmall();
  const threads = policy.embedded?.threads ?? backend.threads;
  const addresses = addressNotice(engineThreads(threads === null ? {} : { threads }));
  if (addresses !== null) note(`vf-train: ${addresses}`);
}

/** `<run>-<random>`: unique, and short enough for a model name. */
function attemptName(runName: string): string {
  return `${basename(runName).slice(0, 40)}-${randomBytes(3).toString('hex')}`;
}
