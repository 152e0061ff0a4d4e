/**
 * The reasons with which chat APIs end a generation, as a closed list: what is not in it never counts as a finished turn. Sources: the API references of
 * OpenAI, Anthropic, Gemini, Mistral, Cohere, Bedrock, DeepSeek, GLM, TGI, llama.cpp, LM Studio, vLLM and SGLang.
 */

/** `stop`: the turn is whole. `length`: a limit of tokens cut it off. `filtered`: the provider withheld it. `unfinished`: something went wrong. */
export type FinishKind = 'stop' | 'length' | 'filtered' | 'unfinished';

/** The turn ended, and no stop string ended it. */
const OWN_ENDS = [
  'end_turn',
  'eos',
  'eos_token',
  'eosfound',
  'endoftext',
  'end_of_text',
  'tool_calls',
  'tool_call',
  'tool_use',
  'toolcalls',
  'function_call',
];

/** The turn ended, by itself or at a stop string. */
const ENDS = [...OWN_ENDS, 'stop', 'stop_sequence', 'stop_string', 'stopstringfound', 'complete', 'completed', 'normal', 'done', 'end', 'finished'];

const LIMITS = [
  'length',
  'max_tokens',
  'max_token',
  'max_length',
  'max_output_tokens',
  'max_new_tokens',
  'max_completion_tokens',
  'max_tokens_reached',
  'maxpredictedtokensreached',
  'model_length',
  'model_context_window_exceeded',
  'context_length',
  'context_length_exceeded',
  'contextlengthreached',
  'token_limit',
  'length_limit',
  'max_tokens_exceeded',
];

const FILTERS = [
  'content_filter',
  'content_filtered',
  'contentfilter',
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
  ...ENDS.map((name) => [name, 'stop'] as const),
  ...LIMITS.map((name) => [name, 'length'] as const),
  ...FILTERS.map((name) => [name, 'filtered'] as const),
]);

/** `reason`: a response's `finish_reason`, of any type. Its case, and the prefix of Gemini's names, do not matter. */
export function finishKind(reason: unknown): FinishKind {
  return KINDS.get(plainName(reason)) ?? 'unfinished';
}

/** True if the reason says that the model ended its turn, so that no stop string is missing. */
export function endedByItself(reason: unknown): boolean {
  return OWN_ENDS.includes(plainName(reason));
}

function plainName(reason: unknown): string {
  if (typeof reason !== 'string') return '';
  return reason
    .trim()
    .toLowerCase()
    .replaceAll('-', '_')
    .replace(/^(finishreason[._]|finish_reason_)/, '');
}
