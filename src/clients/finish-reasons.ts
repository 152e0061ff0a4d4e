/**
 * The reasons with which chat APIs end a generation, as a closed list: what is not in it never counts as a finished turn. Sources: the API references of
 * OpenAI, Anthropic, Gemini, Mistral, Cohere, Bedrock, DeepSeek, GLM, TGI, llama.cpp, LM Studio, vLLM and SGLang.
 */

/** `stop`: the turn is whole. `length`: a limit of tokens cut it off. `filtered`: the provider withheld it. `unfinished`: something went wrong. */
export type FinishKind = 'stop' | 'length' | 'filtered' | 'unfinished';

/** The turn ended, and no stop string ended it. */
const OWN_ENDS = ['end_turn', 'eos', 'eos_token', 'eos_found', 'endoftext', 'end_of_text', 'tool_calls', 'tool_call', 'tool_use', 'function_call'];

/** The turn ended, by itself or at a stop string. */
const ENDS = [...OWN_ENDS, 'stop', 'stop_sequence', 'stop_string', 'stop_string_found', 'complete', 'completed', 'normal', 'done', 'end', 'finished'];

const LIMITS = [
  'length',
  'max_tokens',
  'max_token',
  'max_length',
  'max_output_tokens',
  'max_new_tokens',
  'max_completion_tokens',
  'max_tokens_reached',
  'max_predicted_tokens_reached',
  'model_length',
  'model_context_window_exceeded',
  'context_length',
  'context_length_exceeded',
  'context_length_reached',
  'token_limit',
  'length_limit',
  'max_tokens_exceeded',
];

const FILTERS = [
  'content_filter',
  'content_filtered',
  'filtered',
  'filter',
  'safety',
  'image_safety',
  'sensitive',
  'refusal',
  'recitation',
  'blocklist',
  'blocked',
  'prohibited_content',
  'spii',
  'guardrail_intervened',
  'guardrails',
  'moderation',
  'error_toxic',
];

const KINDS: ReadonlyMap<string, FinishKind> = new Map([
  ...ENDS.map((name) => [plainName(name), 'stop'] as const),
  ...LIMITS.map((name) => [plainName(name), 'length'] as const),
  ...FILTERS.map((name) => [plainName(name), 'filtered'] as const),
]);
const PLAIN_OWN_ENDS: ReadonlySet<string> = new Set(OWN_ENDS.map(plainName));

/** `reason`: a response's `finish_reason`, of any type. Its case, what separates its words, and the prefix of Gemini's names do not matter. */
export function finishKind(reason: unknown): FinishKind {
  return KINDS.get(plainName(reason)) ?? 'unfinished';
}

/** True if the reason says that the model ended its turn, so that no stop string is missing. */
export function endedByItself(reason: unknown): boolean {
  return PLAIN_OWN_ENDS.has(plainName(reason));
}

function plainName(reason: unknown): string {
  if (typeof reason !== 'string') return '';
  return reason
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')
    .replace(/^finishreason(?=.)/, '');
}
