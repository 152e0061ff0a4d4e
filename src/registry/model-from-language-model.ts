/** `modelFromLanguageModel`: any model of the AI SDK plays a role, such as a judge. */
import type { LanguageModel } from '../clients/language-model.ts';
import { type LanguageModelPolicyOptions, policyFromLanguageModel } from '../clients/language-model-policy.ts';
import type { Model } from '../core/model.ts';
import { clientModel } from '../models/client-model.ts';

/**
 * A model for a role. Throws ConfigError for anything but a model object; its `generate` fails as that of every chat API does.
 * @example await evaluate({ environment: 'my-env', policy, roles: { judge: modelFromLanguageModel(openai('gpt-5'), { maxConcurrentRequests: 4 }) } });
 */
export function modelFromLanguageModel(model: LanguageModel, options: LanguageModelPolicyOptions = {}): Model {
  const client = policyFromLanguageModel(model, options);
  return { ...clientModel(() => client, { name: client.name, isPolicy: false }), isRemote: true };
}
