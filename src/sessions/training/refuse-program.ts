/** Refuses to train a program, which plays itself and has no policy. */
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { TrainingRequest } from './resolve-training.ts';

/** Throws ConfigError for a program. */
export function refuseProgram({ id, play, programModels }: Pick<Environment, 'id' | 'play' | 'programModels'>): void {
  if (play === undefined) return;
  const trainable = programModels?.trainable;
  const remedy = trainable === undefined ? 'Evaluate it with vf-eval.' : `Train ${trainable} instead.`;
  throw new ConfigError(
    `${id} is a program: it asks models of its own, with prompts that do not extend each other, so it cannot be trained. ${remedy}`,
  );
}

/**
 * For a command without a model or a server: loads its environment, and throws ConfigError if it is a program, which needs neither. Does nothing if the
 * environment does not load, because the command fails with another error anyway.
 */
export async function refuseIncompleteProgram(
  { target, preset, layers }: Pick<TrainingRequest, 'target' | 'preset' | 'layers'>,
  options: { readonly env: Readonly<Record<string, string | undefined>>; readonly signal: AbortSignal },
): Promise<void> {
  const has = (name: string, keys: readonly string[]) => layers.some(({ table }) => keys.some((key) => fieldsOf(table[name])[key] !== undefined));
  const isComplete = preset !== null || (has('model', ['path']) && has('policy', ['base_url', 'launch', 'embedded']));
  if (target === null || target.endsWith('.toml') || isComplete) return;
  const { loadEnvironment } = await import('../../registry/load-environment.ts');
  const args = Object.assign({}, ...layers.map(({ table }) => fieldsOf(fieldsOf(table['environment'])['args']))) as Record<string, unknown>;
  const environment = await loadEnvironment(target, args, { ...options, purpose: 'training' }).catch(() => null);
  if (environment === null) return;
  try {
    refuseProgram(environment);
  } finally {
    await environment.close();
  }
}
