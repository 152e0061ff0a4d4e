/** Checks whether a policy can play an environment when a run is set up, so that it does not fail at the first turn. */
import type { PolicyCapabilities, PolicyClient } from '../clients/policy-client.ts';
import { needsNoPolicy } from '../core/agent-env.ts';
import type { Environment, PolicyNeed } from '../core/environment.ts';
import { ConfigError } from '../core/errors.ts';
import { MAX_STOP_STRINGS } from '../schemas/policy-server/sampling-fields.ts';

/** Throws ConfigError, with the missing feature and the remedy, if the policy cannot play the environment. */
export function assertPlayable(
  environment: Pick<Environment, 'id' | 'turnFormat' | 'turnFormats' | 'needs' | 'withoutImages' | 'play' | 'asksPolicy'>,
  { name, capabilities }: Pick<PolicyClient, 'name' | 'capabilities'>,
): void {
  const { id, turnFormat, turnFormats = [turnFormat], needs = [], withoutImages = null } = environment;
  if (needsNoPolicy(environment)) return;
  const { kind, chatTemplate = 'model' } = capabilities;
  if (turnFormats.includes('chat') && kind === 'tokens' && chatTemplate === null) {
    throw new ConfigError(
      `${id} is a chat environment, and ${name} cannot render a conversation: the model has no chat template, and its tokenizer lacks the ` +
        'control tokens of ChatML. Serve it with --chat-template FILE.',
    );
  }
  // An episode may have stop strings of its own, which only the server can refuse.
  const { stop } = environment as { readonly stop?: unknown };
  if (kind === 'tokens' && Array.isArray(stop) && stop.length > MAX_STOP_STRINGS) {
    throw new ConfigError(
      `${id} stops at ${stop.length} strings, and ${name} takes at most ${MAX_STOP_STRINGS}, as vLLM does. Stop at fewer and cut the rest of the text in envResponse, or play it over a chat API that takes more.`,
    );
  }
  for (const need of needs) {
    const lack = lacks[need](capabilities);
    const instead = need === 'images' && withoutImages !== null ? `, or ${withoutImages}` : '';
    if (lack !== null) throw new ConfigError(`${id} ${lack.requires}, and ${name} ${lack.but}${instead}.`);
  }
}

/** True if the policy must see images. */
export function showsImages({ needs = [] }: Pick<Environment, 'needs'>): boolean {
  return needs.includes('images');
}

type Lack = { readonly requires: string; readonly but: string } | null;

const lacks: Readonly<Record<PolicyNeed, (capabilities: PolicyCapabilities) => Lack>> = {
  native_tools: ({ toolCalls = null }) =>
    toolCalls === null
      ? {
          requires: 'calls tools natively',
          but: 'writes calls in no format that can be parsed: its chat template renders none of the known ones. Use calls "text" in the ToolEnv, or another model',
        }
      : null,
  prefill: ({ kind, prefill = kind === 'tokens' }) =>
    prefill
      ? null
      : { requires: "opens the assistant's turn (prefill)", but: 'only takes whole messages. Use a policy with token ids, such as vLLM' },
  images: ({ images = false, blindBecause = null }) => {
    if (images) return null;
    const why = blindBecause === null ? '' : `: it ${blindBecause}`;
    return { requires: 'shows images', but: `cannot see them${why}. Use a vision-language model behind vLLM or a chat API` };
  },
};
