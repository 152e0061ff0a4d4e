/** The body of `openGrpoTrainer`. */
import { checkOptions } from '../core/check-options.ts';
import { openStepTrainer } from '../sessions/training/open-step-trainer.ts';
import type { GrpoTrainer, GrpoTrainerOptions } from './open-grpo-trainer.ts';
import { openedSetup } from './run-train-options.ts';

const OPTIONS = [
  'environment',
  'preset',
  'settings',
  'args',
  'signal',
  'variables',
  'onNotice',
] as const satisfies readonly (keyof GrpoTrainerOptions)[];

export async function runGrpoTrainerOptions(options: GrpoTrainerOptions): Promise<GrpoTrainer> {
  checkOptions('openGrpoTrainer', options, OPTIONS);
  const { setup, host } = await openedSetup('openGrpoTrainer', options);
  setup.notices.forEach(host.warn);
  const opened = await openStepTrainer(setup, host);
  const { trainer, environment } = opened;
  return Object.assign(trainer, { environment, [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose]() });
}
