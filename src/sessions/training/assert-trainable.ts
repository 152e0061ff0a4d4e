/** Checks before anything is started that the rows fill a step and that the model can play the environment. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { countText } from '../../core/count-text.ts';
import { needsNoPolicy } from '../../core/agent-env.ts';
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import { findEnvironment, isEnvironmentPath } from '../../registry/find-environment.ts';
import { readExperts } from '../../launch/model-shape.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { assertPlayable } from '../../rollouts/assert-playable.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { TrainingRequest } from './resolve-training.ts';
import { stepsPerPass } from '../../trainer/sources/rows-of-step.ts';

/** Throws ConfigError. */
export async function assertTrainable(
  environment: Environment,
  { model, lora, rollouts, steps, rolloutsFile, source }: Pick<TrainingConfig, 'model' | 'lora' | 'rollouts' | 'steps' | 'rolloutsFile' | 'source'>,
): Promise<void> {
  refuseProgram(environment);
  refuseMissing(model.path);
  refuseExperts(model.path, lora.targets);
  assertFits(rollouts.maxTokens, modelFacts(model.path).contextLength, model.path);
  if (steps > 0 && rolloutsFile === null && source === null) stepsPerPass(environment.train, rollouts.examplesPerStep);
  await assertPlays(environment, model.path);
}

/** Throws ConfigError for a path at which there is nothing. vLLM would report it after a minute, in a hundred lines, and torch after half a minute. Any other path may be a hub id. */
function refuseMissing(path: string): void {
  if (/^[./]/.test(path) && !existsSync(path)) throw new ConfigError(`model.path does not exist: ${path}; name a Hugging Face directory`);
}

/** Throws ConfigError if the model cannot play the environment. Skipped if there is no local directory or its tokenizer cannot be read here; the server is then asked later. */
export async function assertPlays(environment: Environment, modelPath: string): Promise<void> {
  if (environment.turnFormat !== 'chat' || !existsSync(join(modelPath, 'tokenizer.json'))) return;
  const [{ openLocalTokenizer }, { templateTraits }] = await Promise.all([
    import('../../tokenizer/local-tokenizer.ts'),
    import('../../tokenizer/template-traits.ts'),
  ]);
  let traits: Awaited<ReturnType<typeof templateTraits>>;
  try {
    traits = await templateTraits(await openLocalTokenizer(modelPath));
  } catch (error) {
    if (error instanceof ConfigError) return;
    throw error;
  }
  const { seesImages: images } = modelFacts(modelPath);
  const capabilities = { kind: 'tokens', maxModelLen: null, tokenizerHash: null, logProbsMode: 'unknown', images, ...traits } as const;
  assertPlayable(environment, { name: modelPath, capabilities });
}

/** Throws ConfigError for a limit of new tokens that no generation can reach, because prompt and generation share the window. `window` is null if it is unknown. */
export function assertFits(maxTokens: number | null, window: number | null, whose: string): void {
  if (maxTokens === null || window === null || maxTokens < window) return;
  throw new ConfigError(
    `rollouts.max_tokens is ${countText(maxTokens)}, but ${whose} has a window of ${countText(window)} tokens for prompt and generation together. Lower rollouts.max_tokens, or serve the model with a larger window.`,
  );
}

const ATTENTION = ['q_proj', 'k_proj', 'v_proj', 'o_proj'];

/** Throws ConfigError if the model is a mixture of experts and the adapter is to be on its MLPs, which are stacked and not linear layers. */
function refuseExperts(path: string, targets: readonly string[]): void {
  const model = readExperts(path);
  const [target] = targets.filter((name) => !ATTENTION.includes(name));
  if (model === null || target === undefined) return;
  throw new ConfigError(
    `${model.name} is a mixture of ${model.experts} experts, and the trainer cannot adapt experts (${target} in lora.targets). Train a dense model, or the attention alone: lora.targets = [${ATTENTION.map((name) => `"${name}"`).join(', ')}].`,
  );
}

/** Throws ConfigError for an environment that asks models of its own. */
function refuseProgram(environment: Pick<Environment, 'id' | 'play' | 'asksPolicy' | 'programModels'>): void {
  if (!needsNoPolicy(environment)) return;
  const { id, programModels } = environment;
  const trainable = programModels?.trainable;
  const remedy = trainable === undefined ? 'Evaluate it with vf-eval.' : `Train it with ${trainable}: it then asks the policy.`;
  throw new ConfigError(`${id} asks models of its own and no policy, so it cannot be trained. ${remedy}`);
}

/**
 * For a command without a model or a server: loads its environment, and throws ConfigError if it is unknown or asks models of its own, and needs neither. Does
 * nothing if the environment does not load, because the command fails with another error anyway.
 */
export async function refuseIncompleteProgram(
  { target, preset, layers }: Pick<TrainingRequest, 'target' | 'preset' | 'layers'>,
  options: { readonly env: Readonly<Record<string, string | undefined>>; readonly signal: AbortSignal },
): Promise<void> {
  const has = (name: string, keys: readonly string[]) => layers.some(({ table }) => keys.some((key) => fieldsOf(table[name])[key] !== undefined));
  const isComplete = preset !== null || (has('model', ['path']) && has('policy', ['base_url', 'launch', 'embedded']));
  if (target === null || target.endsWith('.toml') || isComplete) return;
  // A misspelt environment is the first fault to mend.
  if (!isEnvironmentPath(target)) findEnvironment(target);
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
