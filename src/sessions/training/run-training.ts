/** A training from its resolved configuration to its end: the run's folder, its parts, the loop, its cost. Prints nothing: a host shows the progress. */
import { createHash, randomBytes } from 'node:crypto';
import type { Environment } from '../../core/environment.ts';
import { stoppingFault } from '../../core/module-fault.ts';
import { packageVersion } from '../../data/package-root.ts';
import { redactionOf } from '../../evaluate/redaction.ts';
import type { EvaluationLabel } from '../../reports/training/evaluation-label.ts';
import { renderConfig } from '../../reports/training/render-config.ts';
import { Transcripts, type TranscriptsOptions } from '../../reports/training/transcripts.ts';
import type { RoleStats } from '../../schemas/role-stats.ts';
import type { RunCost } from '../../schemas/run-cost.ts';
import { folderOfName, givenRunName } from '../../schemas/run-name.ts';
import { withLocalBase } from '../policy/local-base.ts';
import { evaluationSetup, isEvaluated } from './evaluation-setup.ts';
import { compareInputs, type ComparedInputs, trainingInputs } from './training-inputs.ts';
import { modelFolder } from '../policy/model-folder.ts';
import type { OpenedTraining } from './open-training.ts';
import { trainingRunsFolder, type TrainingSetup } from './resolve-training.ts';
import { trainingCost } from './training-cost.ts';
import { differenceText } from '../../trainer/config/resume-config.ts';
import { CurveLog } from '../../trainer/curves/curve-log.ts';
import { openTensorboardFile } from '../../trainer/curves/tensorboard-file.ts';
import { assertOwnEntries } from '../../files/own-entries.ts';
import { openWandbFile, type WandbRun } from '../../trainer/curves/wandb-file.ts';
import { readTrainingRun, TrainingDirectory } from '../../trainer/records/training-directory.ts';
import { changedText, readSettingHistory, SettingHistory, wholeSettings } from '../../trainer/records/setting-history.ts';
import { joinObservers, type SettingChange, type TrainingObserver, type TrainingStart } from '../../trainer/training-observer.ts';
import type { TrainingOutcome, TrainingPaths } from '../../trainer/training-session.ts';

/** The parts of its process that a run uses. */
export interface TrainingHost {
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Collects values that must not be written or shown. */
  readonly secrets: Set<string>;
  readonly redact: (text: string) => string;
  /** Aborting interrupts the run, which can then be resumed. */
  readonly signal: AbortSignal;
  /** Takes lines from before the run has its folder, such as the progress of a download. */
  readonly warn: (line: string) => void;
  /** Called once the run has its folder. Shows the notices of the setup. */
  readonly watch: (directory: TrainingDirectory) => Promise<TrainingWatch>;
  /** An environment that is already loaded, and that the run leaves open. @default the one that the configuration names */
  readonly environment?: Environment;
  /** Called at the end, before a finished run is marked as such: writes the files that every finished run has. @default nothing */
  readonly conclude?: (ended: EndedTraining) => Promise<void>;
  /** Called once a finished run is marked as such, while its folder is still locked. @default nothing */
  readonly onFinished?: (ended: EndedTraining) => Promise<void>;
  /** Called when the run fails with an error, before the error is thrown. */
  readonly onFailure?: (error: unknown, directory: TrainingDirectory) => Promise<void>;
}

/** Shows one run. */
export interface TrainingWatch {
  readonly observer: TrainingObserver;
  /** Takes a line for the user, free of secrets; a server, a log or an environment may have written it. */
  readonly note: (line: string, style?: 'dim') => void;
  /** Takes a line about something that went wrong or was left out; a command puts its name before it. */
  readonly warn: (line: string) => void;
  /** Output for the transcripts of the first and the last evaluation. */
  readonly transcripts: Pick<TranscriptsOptions, 'columns' | 'paint' | 'note'>;
  /** Called once all parts are open. */
  readonly onOpened?: (training: OpenedTraining) => void;
  readonly close: () => void;
}

export interface EndedTraining {
  readonly outcome: TrainingOutcome;
  readonly setup: TrainingSetup;
  readonly paths: TrainingPaths;
  /** Path of the transcripts; null if there are none. */
  readonly transcripts: string | null;
  readonly evaluationLabel: EvaluationLabel;
  /** Number of rows of the evaluation environment. */
  readonly evaluationRows: number;
  /** Calls of the models by role in this process. */
  readonly roles: ReadonlyMap<string, RoleStats>;
  /** Their cost, and that of the training service; null if nothing can cost anything. */
  readonly cost: RunCost | null;
}

/** Runs or resumes the training until its last step, a stop by a guard, or an interruption. Throws errors that end it; it can be resumed even then. */
export async function runTraining(setup: TrainingSetup, host: TrainingHost): Promise<EndedTraining> {
  // Both are done before the run has a folder.
  const { changes: inputChanges } = await comparedInputs(setup, host);
  const config = await withLocalBase(setup.config, host);
  await using directory = await openDirectory(setup);
  const ended = await runIn(directory, { setup, config, inputChanges }, host).catch(async (thrown: unknown) => {
    const error = stoppingFault(host.signal) ?? thrown;
    // Otherwise -R would resume this run, which never began, as the newest one.
    if (setup.resumeDirectory === null) await directory.removeUnused();
    await host.onFailure?.(error, directory);
    throw error;
  });
  await host.conclude?.(ended);
  if (ended.outcome.reason === 'finished') {
    await directory.finish(new Date());
    await host.onFinished?.(ended);
  }
  return ended;
}

/** Of a run that is resumed. Throws ConfigError if a file that it names has changed or is gone, or its folder has entries that lead elsewhere. */
export async function comparedInputs(setup: TrainingSetup, { variables }: Pick<TrainingHost, 'variables'>): Promise<ComparedInputs> {
  if (setup.resumeDirectory === null) return { inputs: {}, changes: [] };
  await assertOwnEntries(setup.resumeDirectory);
  return compareInputs(await readTrainingRun(setup.resumeDirectory), { setup, variables });
}

/** Creates a new folder, or opens the resumed one and updates its configuration. */
export async function openDirectory(setup: TrainingSetup): Promise<TrainingDirectory> {
  const { config, resumeDirectory, changes, secrets } = setup;
  const text = renderConfig(setup, { secrets: [...secrets] });
  const configDigest = createHash('sha256').update(JSON.stringify(setup.wire)).digest('hex');
  if (resumeDirectory === null) {
    return TrainingDirectory.create({
      outputDirectory: trainingRunsFolder(config.outputDir),
      name: config.name,
      id: randomBytes(4).toString('hex'),
      config: text,
      configDigest,
      startedAt: new Date(),
    });
  }
  const directory = await TrainingDirectory.open(resumeDirectory);
  if (changes.length > 0) directory.changeConfig({ name: config.name, config: text, configDigest });
  return directory;
}

interface Run {
  readonly setup: TrainingSetup;
  /** The configuration of the setup, with the base as a folder of this machine if the embedded engine needs one. */
  readonly config: TrainingSetup['config'];
  /** Files that have changed since a resumed run began. */
  readonly inputChanges: ComparedInputs['changes'];
}

async function runIn(directory: TrainingDirectory, { setup, config, inputChanges }: Run, host: TrainingHost): Promise<EndedTraining> {
  const attempt = attemptName(config.name);
  const { inputs: before } = directory.run;
  const inputs = await trainingInputs(setup.wire, modelFolder(config.model.path, host.variables), before);
  directory.keepInputs(inputs);
  const evaluatedWith = evaluationSetup(setup.wire, inputs);
  await directory.beginAttempt({ id: attempt, startedAt: new Date(), packageVersion: packageVersion() });
  const { paths } = directory;
  const watch = await host.watch(directory);
  const { note, warn } = watch;
  const changes = [
    ...setup.changes.filter(({ key }) => key !== 'name').map((change) => ({ ...change, text: host.redact(differenceText(change)) })),
    ...inputChanges.map((change) => ({ ...change, key: `files.${change.key}` })),
  ];
  const history = await readSettingHistory(paths.events);
  const curves = openCurves({ setup, directory, history, changes, configText: await directory.readConfig(), secrets: host.secrets, warn });
  let isFinished = false;
  let transcripts: Transcripts | null = null;
  try {
    const { openTraining } = await import('./open-training.ts');
    await using training = await openTraining({
      ...host,
      config,
      changed: {
        changes,
        evaluationSetup: evaluatedWith,
        isEvaluatedAgain:
          setup.changes.some(({ key }) => isEvaluated(key)) || (before !== undefined && evaluationSetup(setup.wire, before) !== evaluatedWith),
        isUpdatedOtherwise: setup.changes.some(({ key }) => /^(optimizer|algorithm)\.|^sft\.learning_rate$/.test(key)),
      },
      directory,
      attempt,
      observer: joinObservers([watch.observer, ...curves, { onEvaluation: () => transcripts?.evaluated() }]),
      note,
      warn,
    });
    watch.onOpened?.(training);
    for (const notice of training.notices) note(notice);
    for (const [role, text] of training.roles.descriptions) note(`role ${role}: ${text}`, 'dim');
    const name = givenRunName(config.name, config.environment.id, config.model.path);
    transcripts = new Transcripts({ name, environment: training.run.evaluation, paths, ...watch.transcripts, warn });
    const { train } = await import('../../trainer/loop/train.ts');
    const outcome = await train(training.run, host.signal);
    isFinished = outcome.reason === 'finished';
    const { evaluationLabel, evaluationRows, roles, payments } = training;
    const { stats } = roles.models;
    const cost = trainingCost(stats, payments);
    return { outcome, setup, paths, transcripts: await transcripts.finish(), evaluationLabel, evaluationRows, roles: stats, cost };
  } finally {
    for (const curve of curves) curve.close({ isFinished });
    watch.close();
  }
}

/** `<run>-<random>`: unique, and short enough for a model name. */
export function attemptName(runName: string): string {
  return `${folderOfName(runName).slice(0, 40)}-${randomBytes(3).toString('hex')}`;
}

export interface OpenCurvesOptions {
  readonly setup: Pick<TrainingSetup, 'config' | 'wire'>;
  readonly directory: Pick<TrainingDirectory, 'paths' | 'run'>;
  /** The settings that changed before, and those that change now. @default none */
  readonly history?: SettingHistory;
  readonly changes?: readonly SettingChange[];
  /** Text of config.toml, free of secrets. */
  readonly configText: string;
  readonly secrets: ReadonlySet<string>;
  /** Takes why a log could not be written. */
  readonly warn: (line: string) => void;
}

/** Creates no file: each log does so when the run starts. */
export function openCurves({ setup, directory, configText, secrets, warn: onFailure, ...given }: OpenCurvesOptions): CurveLog[] {
  const { history = new SettingHistory(), changes = [] } = given;
  const { tensorboard, wandb } = setup.config.logging;
  const { paths, run } = directory;
  const redaction = redactionOf([...secrets]);
  const trained = ({ step }: TrainingStart) => {
    // The event of these changes is written later.
    history.add({ kind: 'resumed', step, message: '', changes: redaction.values([...changes]) });
    return history.through(redaction.settings(setup.wire), step + 1);
  };
  const logs: CurveLog[] = [];
  if (tensorboard) {
    const open = (start: TrainingStart) => {
      const settings = trained(start);
      const config = [...settings.changed.map((each) => `# ${changedText(each)}\n`), configText].join('');
      return openTensorboardFile({ folder: paths.tensorboard, rows: start.rows, settings: wholeSettings(settings), config });
    };
    logs.push(new CurveLog({ viewer: 'TensorBoard', open, onFailure }));
  }
  if (wandb !== null) {
    const wandbRun: WandbRun = {
      // The part of the folder's name that is unique.
      id: run.run_id.split('--').at(-1)!,
      name: setup.config.name,
      project: wandb.project,
      entity: wandb.entity,
      group: wandb.group ?? run.run_id,
      tags: wandb.tags ?? [],
      startedAt: new Date(run.started_at),
    };
    const open = (start: TrainingStart) =>
      openWandbFile({
        folder: paths.wandb,
        run: wandbRun,
        rows: start.rows,
        settings: wholeSettings(trained(start)),
        packageVersion: packageVersion(),
      });
    logs.push(new CurveLog({ viewer: 'Weights & Biases', open, onFailure }));
  }
  return logs;
}
