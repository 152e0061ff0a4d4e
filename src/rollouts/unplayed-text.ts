/** Why the policy was left no room for a first token, and what to do. */
import { countText } from '../core/count-text.ts';
import type { Environment } from '../core/environment.ts';
import { type PromptTooLongError, thrownText } from '../core/errors.ts';
import type { Transcript } from './transcript.ts';

export interface UnplayedOptions {
  /** The server's refusal of the prompt; null if the limits here decided. */
  readonly refusal: PromptTooLongError | null;
  /** Null if the prompt was never made into tokens. */
  readonly transcript: (Pick<Transcript, 'limits'> & { readonly tokens: { readonly length: number } | null }) | null;
  readonly limitArguments?: Environment['limitArguments'];
}

const SHORTEN = 'shorten the prompts: shorter rows, fewer or shorter passages, messages or tools';

export function unplayedText({ refusal, transcript, limitArguments = {} }: UnplayedOptions): string {
  if (refusal !== null) return `${thrownText(refusal).replace(/[.]$/, '')}. Serve the model with a larger window (--max-model-len), or ${SHORTEN}`;
  const length = transcript?.tokens?.length ?? 0;
  const { windowTokens, contextTokens } = transcript?.limits ?? { windowTokens: Infinity, contextTokens: Infinity };
  if (length >= windowTokens)
    return `The prompt has ${countText(length)} tokens, and the model's window ${countText(windowTokens)}. Serve the model with a larger window (--max-model-len), or ${SHORTEN}`;
  const named = (limit: 'contextTokens' | 'responseTokens' | 'completionTokens') => limitArguments[limit] ?? `limits.${limit}`;
  if (length > contextTokens)
    return `The prompt has ${countText(length)} tokens, and a context of the environment at most ${countText(contextTokens)}. Raise ${named('contextTokens')} of the environment, or ${SHORTEN}`;
  return `The environment's limits leave the policy no token. Raise ${named('responseTokens')} and ${named('completionTokens')} of the environment to at least 1`;
}
