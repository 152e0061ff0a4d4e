/** A training run from its arguments to its summary: configuration, folder, live view, the run itself, plots. */
import { createHash, randomBytes } from 'node:crypto';
import { relative } from 'node:path';
import { packageVersion } from '../../data/package-root.ts';
import { ConfigError } from '../../core/errors.ts';
import { readMetrics } from '../../trainer/read-metrics.ts';
import { train } from '../../trainer/train.ts';
import { TrainingDirectory } from '../../trainer/training-directory.ts';
import type { TrainingOutcome } from '../../trainer/training-outcome.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { paintFor } from '../paint.ts';
import type { TrainArguments } from './arguments.ts';
import { LiveView } from './live-view.ts';
import { resumeCommand } from './next-training-commands.ts';
import { attemptName, openTraining } from './open-training.ts';

import { readTrainingConfig, trainingRunsFolder, type TrainingSetup } from './read-training-config.ts';
import { renderConfig } from './render-config.ts';
import { reportTraining } from './report-training.ts';
import { trainingDryRun } from './training-dry-run.ts';

export async function runTraining(given: TrainArguments, context: CommandContext): Promise<number> {
  const setup = await readTrainingConfig(given);
  for (const secret of setup.secrets) context.secrets.add(secret);
  if (given.action === 'show-config') {
    process.stdout.write(renderConfig(setup, { secrets: [...setup.secrets] }));
    return EXIT.done;
  }
  if (given.action === 'dry-run') {
    process.stdout.write(await trainingDryRun(setup, process.env, context.signal));
    return EXIT.done;
  }
  await using directory = await openDirectory(setup);
  const outcome = await runIn(directory, setup, given, context).catch(async (error: unknown) => {
    // -R would take a new run that never began for the newest one.
    if (setup.resumeDirectory === null) await directory.removeUnused();
    // A configuration that cannot be used is mended first.
    if (!(error instanceof ConfigError) && (await directory.holdsWork())) {
      context.note(`vf-train: what was sampled and trained is kept; continue this run with ${resumeCommand(directory.path)}`);
    }
    throw error;
  });
  await reportTraining({ outcome, config: setup.config, paths: directory.paths, display: given.display, note: context.note });
  if (outcome.reason === 'finished') await directory.finish(new Date());
  return outcome.reason === 'finished' ? EXIT.done : outcome.reason === 'interrupted' ? EXIT.interrupted : EXIT.failed;
}

/** A new folder, or the one that is resumed with its configuration brought up to date. */
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
  if (changes.length > 0) await directory.replaceConfig(text, configDigest);
  return directory;
}

async function runIn(
  directory: TrainingDirectory,
  { config, notices, resumeDirectory }: TrainingSetup,
  { display }: TrainArguments,
  context: CommandContext,
): Promise<TrainingOutcome> {
  const attempt = attemptName(config.name ?? config.environment.id);
  await directory.beginAttempt({ id: attempt, startedAt: new Date(), packageVersion: packageVersion() });
  const isPlain = display.plain || !process.stderr.isTTY;
  const view = new LiveView({
    stream: process.stderr,
    plain: isPlain,
    paint: paintFor(process.stderr, { plain: display.plain }),
    name: config.name ?? config.environment.id,
    directory: relative(process.cwd(), directory.path) || '.',
    steps: config.steps,
    rows: resumeDirectory === null ? [] : await readMetrics(directory.paths.metrics),
    redact: context.redact,
  });
  context.onInterrupt = () => view.note('vf-train: stopping; what was sampled and trained is kept. Press Ctrl-C again to stop at once');
  try {
    for (const notice of notices) view.note(notice);
    await using training = await openTraining({
      config,
      directory,
      attempt,
      variables: process.env,
      secrets: context.secrets,
      redact: context.redact,
      observer: view,
      note: (line) => view.note(context.redact(line)),
      signal: context.signal,
    });
    for (const notice of training.notices) view.note(notice);
    return await train(training.run, context.signal);
  } finally {
    view.close();
  }
}
