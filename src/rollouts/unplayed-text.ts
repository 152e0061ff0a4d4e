/** Why the policy was left no room for a first token, and what to do. */
import { countText } from '../core/count-text.ts';
import type { Environment } from '../core/environment.ts';
import type { PolicyCapabilities } from '../clients/policy-client.ts';
import { type PromptTooLongError, thrownText } from '../core/errors.ts';
import type { Transcript } from './transcript.ts';

export interface UnplayedOptions {
  /** The server's refusal of the prompt; null if the limits here decided. */
  readonly refusal: PromptTooLongError | null;
  /** Null if the prompt was never made into tokens. */
  readonly transcript: (Pick<Transcript, 'limits'> & { readonly tokens: { readonly length: number } | null }) | null;
  readonly limitArguments?: Environment['limitArguments'];
  readonly policy: WindowOwner;
}

type WindowOwner = Pick<PolicyCapabilities, 'kind' | 'maxModelLen' | 'isEmbedded'>;

/** How a policy gets a larger window, as an instruction. Only vLLM, `vf-serve policy` and their like tell their window and have a flag for it. */
export function widerWindow({ kind, maxModelLen, isEmbedded = false }: WindowOwner): string {
  if (isEmbedded) return 'Use a model with a larger window, or raise the limits of the environment where these are smaller';
  return kind === 'chat' && maxModelLen === null ? 'Use a model with a larger window' : 'Serve the model with a larger window (--max-model-len)';
}

const SHORTEN = 'shorten the prompts: shorter rows, fewer or shorter passages, messages or tools';

export function unplayedText({ refusal, transcript, limitArguments = {}, policy }: UnplayedOptions): string {
  if (refusal !== null) return `${thrownText(refusal).replace(/[.]$/, '')}. ${widerWindow(policy)}, or ${SHORTEN}`;
  const length = transcript?.tokens?.length ?? 0;
  const { windowTokens, contextTokens } = transcript?.limits ?? { windowTokens: Infinity, contextTokens: Infinity };
  if (length >= windowTokens)
    return `The prompt has ${countText(length)} tokens, and the model's window ${countText(windowTokens)}. ${widerWindow(policy)}, or ${SHORTEN}`;
  const named = (limit: 'contextTokens' | 'responseTokens' | 'completionTokens') => limitArguments[limit] ?? `limits.${limit}`;
  if (length > contextTokens)
    return `The prompt has ${countText(length)} tokens, and a context of the environment at most ${countText(contextTokens)}. Raise ${named('contextTokens')} of the environment, or ${SHORTEN}`;
  return `The environment's limits leave the policy no token. Raise ${named('responseTokens')} and ${named('completionTokens')} of the environment to at least 1`;
}
