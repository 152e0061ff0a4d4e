/** Opens the parts of a training for a caller that decides what each step does. The folder that servers and backends need is temporary. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Disposers } from '../../core/disposers.ts';
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import { servedPolicy } from '../../trainer/loop/start-session.ts';
import { withLocalBase } from '../policy/local-base.ts';
import { isUnserved } from './open-supervised-training.ts';
import type { OpenTrainingOptions } from './open-training.ts';
import type { TrainingSetup } from './resolve-training.ts';
import { attemptName, openDirectory, type TrainingHost } from './run-training.ts';
import { StepTrainer, type StepTrainerParts } from './step-trainer.ts';

export interface OpenedStepTrainer extends AsyncDisposable {
  readonly trainer: StepTrainer;
  readonly environment: Environment;
}

type Host = Pick<TrainingHost, 'variables' | 'secrets' | 'redact' | 'signal' | 'warn' | 'environment'> & Pick<OpenTrainingOptions, 'credit'>;

/** @param within what runs each operation of the trainer, with the settings of the caller's requests */
export async function openStepTrainer(setup: TrainingSetup, host: Host, within: StepTrainerParts['within']): Promise<OpenedStepTrainer> {
  refuseOthers(setup.config);
  await using opened = new Disposers();
  const stop = new AbortController();
  const signal = AbortSignal.any([host.signal, stop.signal]);
  const config = await withLocalBase(setup.config, host);
  const folder = await mkdtemp(join(tmpdir(), 'vf-trainer-'));
  opened.defer(() => rm(folder, { recursive: true, force: true }));
  const directory = opened.use(await openDirectory({ ...setup, config: { ...config, outputDir: folder } }));
  const { openTraining } = await import('./open-training.ts');
  const training = opened.use(
    await openTraining({ ...host, signal, config, directory, attempt: attemptName(config.name), observer: {}, note: host.warn, choosesRows: true }),
  );
  for (const notice of training.notices) host.warn(notice);
  const { run } = training;
  if (run.createSource !== undefined)
    throw new ConfigError(
      `${run.environment.id} brings a source of its own, which decides what a step plays. Train it with vf-train, or with train().`,
    );
  const session = opened.use(await run.openSession(signal));
  const onNotice = (line: string) => host.warn(line);
  const policy = servedPolicy(run, { report: ({ message }) => onNotice(message) }, session, signal);
  opened.defer(() => policy.settled());
  opened.defer(() => stop.abort());
  await session.publisher.clear(signal);
  const trainer = new StepTrainer({ run, session, policy, onNotice, signal, within });
  if (policy.version === null) await trainer.serveInitial();
  const disposer = opened.move();
  return { trainer, environment: run.environment, [Symbol.asyncDispose]: () => disposer.disposeAsync() };
}

function refuseOthers(config: TrainingSetup['config']): void {
  if (config.sft.data !== null) throw new ConfigError('A trainer of single steps takes no demonstrations (sft.data). Use vf-train, or train().');
  if (config.rolloutsFile !== null)
    throw new ConfigError('A trainer of single steps plays its own rollouts (rollouts_file). Use vf-train, or train().');
  if (isUnserved(config))
    throw new ConfigError(
      'A trainer needs a policy to sample from. Set policy.base_url, [policy.launch] or [policy.embedded], or take a preset that does.',
    );
}
