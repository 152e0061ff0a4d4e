/** Checks before anything is started that the rows fill a step and that the model can play the environment. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { assertPlayable } from '../../rollouts/assert-playable.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { stepsPerPass } from '../../trainer/sources/rows-of-step.ts';
import { refuseProgram } from './refuse-program.ts';

/** Throws ConfigError. Skips the model check if there is no local directory or its tokenizer cannot be read here; the server is then asked later. */
export async function assertTrainable(
  environment: Environment,
  { model, rollouts, steps, rolloutsFile, source }: Pick<TrainingConfig, 'model' | 'rollouts' | 'steps' | 'rolloutsFile' | 'source'>,
): Promise<void> {
  refuseProgram(environment);
  if (steps > 0 && rolloutsFile === null && source === null) stepsPerPass(environment.train, rollouts.examplesPerStep);
  if (environment.turnFormat !== 'chat' || !existsSync(join(model.path, 'tokenizer.json'))) return;
  const [{ openLocalTokenizer }, { templateTraits }] = await Promise.all([
    import('../../tokenizer/local-tokenizer.ts'),
    import('../../tokenizer/template-traits.ts'),
  ]);
  let traits: Awaited<ReturnType<typeof templateTraits>>;
  try {
    traits = await templateTraits(await openLocalTokenizer(model.path));
  } catch (error) {
    if (error instanceof ConfigError) return;
    throw error;
  }
  const { seesImages: images } = modelFacts(model.path);
  const capabilities = { kind: 'tokens', maxModelLen: null, tokenizerHash: null, logProbsMode: 'unknown', images, ...traits } as const;
  assertPlayable(environment, { name: model.path, capabilities });
}
