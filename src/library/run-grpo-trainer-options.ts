/** The body of `openGrpoTrainer`. */
import { checkOptions, type OptionKinds } from '../core/check-options.ts';
import { ConfigError } from '../core/errors.ts';
import { openStepTrainer } from '../sessions/training/open-step-trainer.ts';
import { ENVIRONMENT_CREDIT } from '../trainer/config/own-credit.ts';
import { withTransport } from '../transport/transport-settings.ts';
import { Callbacks } from './callbacks.ts';
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
  credit: 'function',
};

export async function runGrpoTrainerOptions(options: GrpoTrainerOptions): Promise<GrpoTrainer> {
  checkOptions('openGrpoTrainer', options, OPTIONS);
  const callbacks = new Callbacks(options);
  const { credit, ...others } = callbacks.options;
  const { setup, host } = await openedSetup(
    'openGrpoTrainer',
    credit === undefined ? others : { ...others, settings: withOwnCredit(others.settings) },
  );
  setup.notices.forEach(host.warn);
  const transport = trainingTransport(options, host);
  const within = <T>(operation: () => Promise<T>): Promise<T> => callbacks.through(() => withTransport(transport, operation));
  const opened = await within(() => openStepTrainer(setup, { ...host, ...(credit === undefined ? {} : { credit }) }, within));
  const { trainer, environment } = opened;
  return Object.assign(trainer, {
    environment,
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  });
}

/** The settings of a run whose credit comes from elsewhere: rules for built-in ones do not apply. */
function withOwnCredit(settings: GrpoTrainerOptions['settings'] = {}): NonNullable<GrpoTrainerOptions['settings']> {
  const { algorithm = {} } = settings;
  const { advantage = {} } = algorithm;
  if (advantage.use !== undefined)
    throw new ConfigError(
      `openGrpoTrainer got the option credit and settings.algorithm.advantage.use = ${JSON.stringify(advantage.use)}. Leave one of them out.`,
    );
  return { ...settings, algorithm: { ...algorithm, advantage: { ...advantage, use: ENVIRONMENT_CREDIT } } };
}
