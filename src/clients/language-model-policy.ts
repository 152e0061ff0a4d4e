/** `policyFromLanguageModel`: any model of the AI SDK plays in evaluation, so that its providers are a line of the user's code. */
import { ChatClient, type ChatClientOptions } from './chat-client.ts';
import { assertLanguageModel, type LanguageModel } from './language-model.ts';
import { LanguageModelServer, type LanguageModelServerOptions } from './language-model-server.ts';
import { PolicyVersions } from './policy-versions.ts';

/** How a model of the AI SDK is asked. */
export interface LanguageModelPolicyOptions extends Omit<ChatClientOptions, 'versions' | 'takesPrefill'>, LanguageModelServerOptions {
  /** @default version 0 of the model's id */
  readonly versions?: PolicyVersions;
}

/**
 * A chat policy over a model of the AI SDK: it is evaluated, and not trained, because it gives no tokens. Errors, retries, rate limits, stop strings and counts of tokens are
 * those of every chat policy; the provider's own retries must be off, as they are in a model object. Throws ConfigError for anything but a model object.
 * @example await evaluate({ environment: 'search-r1', policy: policyFromLanguageModel(openai('gpt-5'), { maxConcurrentRequests: 8 }) });
 */
export function policyFromLanguageModel(model: LanguageModel, options: LanguageModelPolicyOptions = {}): ChatClient {
  assertLanguageModel(model, 'The policy');
  const { stream, providerOptions, secrets, versions = new PolicyVersions({ version: 0, model: model.modelId }), ...client } = options;
  const server = { ...(stream !== undefined && { stream }), ...(providerOptions && { providerOptions }), ...(secrets && { secrets }) };
  return new ChatClient({ ...client, versions }, (parts) => [new LanguageModelServer(model, server, parts)]);
}
