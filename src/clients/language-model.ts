/** Models of the AI SDK as the objects that its providers return. Told apart by their shape, because a user's project may hold another copy of the SDK. */
import { ConfigError } from '../core/errors.ts';
import { isObject } from '../schemas/is-object.ts';

/** What `openai('gpt-5')` and the other providers of the AI SDK return (specification 2, 3 or 4). */
export interface LanguageModel {
  readonly specificationVersion: 'v2' | 'v3' | 'v4';
  /** `openai.responses` */
  readonly provider: string;
  /** `gpt-5` */
  readonly modelId: string;
  doGenerate(options: never): PromiseLike<unknown>;
  doStream(options: never): PromiseLike<unknown>;
}

const SPECIFICATIONS: readonly unknown[] = ['v2', 'v3', 'v4'];

/** True for a model of any specification, also of one that cannot be used. */
export function isLanguageModel(value: unknown): value is LanguageModel {
  return isObject(value) && typeof value['doGenerate'] === 'function' && 'specificationVersion' in value;
}

/** Throws ConfigError unless the value is a model that can be asked. `place` names it: `policy`, `the role judge`. */
export function assertLanguageModel(value: unknown, place: string): asserts value is LanguageModel {
  if (typeof value === 'string')
    throw new ConfigError(
      `${place} must be a model object, got ${JSON.stringify(value.slice(0, 80))}: a name alone needs the gateway of the AI SDK. Pass what a provider returns, such as openai('gpt-5') of @ai-sdk/openai, or gateway(NAME) of ai.`,
    );
  if (!isLanguageModel(value))
    throw new ConfigError(`${place} is no language model of the AI SDK. Pass what a provider returns, such as openai('gpt-5') of @ai-sdk/openai.`);
  const { specificationVersion: version, modelId, provider } = value;
  if (!SPECIFICATIONS.includes(version))
    throw new ConfigError(
      `${place} has the specification ${JSON.stringify(version)} of the AI SDK, and v2, v3 and v4 are known here. Install a provider of AI SDK 5 or later.`,
    );
  if (typeof modelId !== 'string' || modelId === '' || typeof provider !== 'string')
    throw new ConfigError(`${place} has no modelId or no provider, which every model of the AI SDK has.`);
}
