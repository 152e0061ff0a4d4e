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
  const within = <T>(operation: () => Promise<T>): Promise<T> => withTransport(transport, operation);
  const opened = await within(() => openStepTrainer(setup, host, within));
  const { trainer, environment } = opened;
  return Object.assign(trainer, {
    environment,
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  });
}
