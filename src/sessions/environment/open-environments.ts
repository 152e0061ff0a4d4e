import type { Disposers } from '../../core/disposers.ts';
import type { Environment } from '../../core/environment.ts';
import { RunImages } from '../../files/run-images.ts';
import type { LazyModels } from '../../models/lazy-models.ts';
import { loadEnvironment } from '../../registry/load-environment.ts';
import type { OpenTrainingOptions } from '../training/open-training.ts';

/** The environment of training and that of evaluations, which may be one; both keep their images in the run's folder. */
export async function openEnvironments(
  { config, directory, variables, signal, note }: Pick<OpenTrainingOptions, 'config' | 'directory' | 'variables' | 'signal' | 'note'>,
  opened: Disposers,
  [forTraining, forEvaluation]: readonly [LazyModels, LazyModels],
): Promise<{ environment: Environment; evaluation: Environment }> {
  const { id, args, eval_args: evalArgs } = { ...config.environment, eval_args: config.environment.evalArgs };
  const images = new RunImages();
  await images.keepIn(directory.paths.images);
  const load = async (own: Readonly<Record<string, unknown>>, purpose: 'training' | 'evaluation') => {
    const models = purpose === 'training' ? forTraining : forEvaluation;
    const environment = await loadEnvironment(id, own, {
      env: variables,
      signal,
      purpose,
      models,
      images,
      note: (line) => note(`vf-train: ${line}`),
    });
    opened.defer(() => environment.close());
    return environment;
  };
  const environment = await load(args, 'training');
  const isOther = Object.keys(evalArgs).length > 0;
  return { environment, evaluation: isOther ? await load({ ...args, ...evalArgs }, 'evaluation') : environment };
}
