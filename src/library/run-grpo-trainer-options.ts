/** The body of `openGrpoTrainer`. */
import { checkOptions, type OptionKinds } from '../core/check-options.ts';
import { openStepTrainer } from '../sessions/training/open-step-trainer.ts';
import { withTransport } from '../transport/transport-settings.ts';
import type { GrpoTrainer, GrpoTrainerOptions } from './open-grpo-trainer.ts';
import { openedSetup, trainingTransport } from './run-train-options.ts';

const OPTIONS: OptionKinds<GrpoTrainerOptions> = {
  environment: 'any',
  preset: 'text',
  settings: 'table',
  args: 'table',
  maxWaitMs: 'amount',
  signal: 'signal',
  variables: 'table',
  onNotice: 'function',
};

export async function runGrpoTrainerOptions(options: GrpoTrainerOptions): Promise<GrpoTrainer> {
  checkOptions('openGrpoTrainer', options, OPTIONS);
  const { setup, host } = await openedSetup('openGrpoTrainer', options);
  setup.notices.forEach(host.warn);
  const transport = trainingTransport(options, host);
  const opened = await withTransport(transport, () => openStepTrainer(setup, host));
  const { trainer, environment } = opened;
  const generate = trainer.generate.bind(trainer);
  return Object.assign(trainer, {
    environment,
    // The step samples by it too.
    generate: (...asked: Parameters<typeof trainer.generate>) => withTransport(transport, () => generate(...asked)),
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  });
}
