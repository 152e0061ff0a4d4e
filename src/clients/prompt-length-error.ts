/**
 * Recognises the refusal of a prompt that does not fit the model's window. Its structure decides before its wording: a code, a type, or token counts; the wordings are those of
 * OpenAI, Azure, Anthropic, Bedrock, Gemini, DeepSeek, xAI, Mistral, Groq, Fireworks, Together, Cerebras, Perplexity, Poolside, Moonshot, MiniMax, DashScope, GLM, Copilot,
 * OpenRouter, LiteLLM, TGI, Ollama, LM Studio, llama.cpp, SGLang and vLLM.
 */
import type { HttpResponse } from '../transport/http-endpoint.ts';
import { errorFields } from '../schemas/error-fields.ts';

/** The prompt leaves no room for that many new tokens: a lower limit would fit. vLLM names both fields. */
export const LIMIT_TOO_LARGE = /max_(completion_)?tokens'?( or '?max_completion_tokens'?)? is too large/i;

const CODES =
  /^(context_length_exceeded|exceed_context_size_error|context_window_exceeded|model_context_window_exceeded|contextwindowexceedederror|context_limit_exceeded|context_overflow|prompt_too_long|input_too_long|tokens_too_long|tokens_limit_reached|string_above_max_length|model_max_prompt_tokens_exceeded|max_prompt_tokens_exceeded|request_too_large|1261)$/i;

const WORDINGS = [
  /context[ _-]?(length|window|size|limit)|(max(imum)?|exceeds? the|exceeded the) context\b/i,
  /maximum (context|prompt|input|allowed input|sequence|model)('s)?[ _-](context[ _-])?(length|window|size|limit|count|tokens?|len)/i,
  /max(imum)?[ _](prompt|input|model|sequence)[ _](length|tokens|len)/i,
  /(prompt|input|inputs|request|messages|conversation|text|content)( tokens)? ((is|are|was|were) )?too (long|large)/i,
  /too many (input |prompt )?tokens(?! per)|token count exceeds/i,
  /input[ _](token[ _])?(length|count|tokens|limit)[^.]{0,120}(exceed|longer|greater|more than|too|larger|at most|maximum)/i,
  /(exceed|longer than|larger than|greater than)[^.]{0,120}(context|window|model'?s? (maximum|limit)|(maximum|max|allowed|limit)[^.]{0,40}tokens|token limit)/i,
  /range of input length should be/i,
  /inputs?`? tokens? \+ .{0,40}(max_new_tokens|max_tokens)`? must be/i,
  /must have (less|fewer) than \d+ tokens|max_total_tokens.{0,40}max_seq_len|prompt_tokens.{0,40}max_seq_len/i,
  /reduce (the length|your prompt|the prompt)/i,
  /max_tokens must be at least 1/i,
  /tokens? in (the )?(prompt|request|messages)[^.]{0,80}exceed/i,
  /input[ _]token[ _]count[^.]{0,60}only supports/i,
  /(prompt|input)[ _]tokens?[ _](count|length|limit)[^.]{0,60}exceed|token limit exceeded/i,
  /prompt (exceed|is \d+ tokens long|has \d+ tokens)/i,
  /length of (the )?(prompt|input)[^.]{0,60}must be (less|smaller|at most)/i,
  /input[ _]tokens? \+ .{0,40}max_(new_)?tokens[`']? must be/i,
  /exceeds? max(imum)? message tokens|max(imum)? input characters|too many total text bytes/i,
  /输入(文本)?(长度|内容)?(超过|过长|超出)|(上下文|提示词?)(长度)?(超过|过长|超出|超长)/,
];

/** Words that turn a wording into that of another limit: tokens per minute, files, images. */
const OTHER_LIMITS =
  /per (minute|min|day|hour|second)|\btp[md]\b|rate limit|quota|tool(s| calls| definitions)? (is|are) too|(?<!tokens of )image|too many requests|timeout/i;

/** Words of a limit of new tokens that no model of this server allows: no prompt would change it. */
const OF_OUTPUT =
  /(?<!\+ .{0,40})max(imum)?[ _](completion_|new_|output_)?tokens[`'"]?( you requested| \([^)]*\))? (must|should|is too|cannot|exceeds?|value)|output tokens exceeds?|(?<!input and )maximum output (limit|tokens|for this model)|maximum value for `?max_tokens/i;

/** True if the response says that the prompt does not fit the model's window. llama.cpp says so with a 500, some gateways with a 413 that has no text. */
export function refusesLength({ status, body }: HttpResponse): boolean {
  if (![400, 413, 422, 500].includes(status)) return false;
  const { codes, message, params, numbers } = errorFields(body);
  if (codes.some((code) => CODES.test(code)) || params.includes('input_tokens') || hasOverflowingCounts(numbers)) return true;
  const text = message.slice(0, 4000);
  // A proxy that takes no body of this size says so in its own words, often with a page.
  if (status === 413) return !OTHER_LIMITS.test(text.replace(/<[^>]*>/g, ' '));
  if (status === 500 && /ContextWindowExceededError/.test(text)) return true;
  if (status === 500)
    return /context (size|length|window)[^.]{0,40}exceed|exceed[^.]{0,40}context (size|length|window)|prompt (is )?too (long|large)/i.test(text);
  if (text.trim() === '') return status === 400 && body.length === 0;
  if (OF_OUTPUT.test(text) && !LIMIT_TOO_LARGE.test(text) && !/must be at least 1/i.test(text)) return false;
  return !OTHER_LIMITS.test(text) && (WORDINGS.some((wording) => wording.test(text)) || saysMoreThan(text));
}

/** The message gives the size of the prompt and, after it, a limit that is smaller, as in "Prompt length 9001 is greater than max_seq_len 8192". */
function saysMoreThan(message: string): boolean {
  if (/max_(completion_|new_)?tokens|output/i.test(message)) return false;
  const [, size, limit] =
    /(?:prompt|input|request|messages|sequence)[^.\d]{0,60}([\d,]{3,})[^.\d]{0,60}(?:exceed|greater|longer|larger|more than|above|max|limit|>)[^.\d]{0,60}([\d,]{3,})/i.exec(
      message,
    ) ?? [];
  return Number(size?.replaceAll(',', '')) > Number(limit?.replaceAll(',', ''));
}

/** True if the error gives the window and the prompt's tokens in words, and the prompt alone fits: the limit of new tokens is too large. */
export function promptFits(message: string): boolean {
  const number = (pattern: RegExp) => Number(pattern.exec(message)?.[1]?.replaceAll(',', '') ?? NaN);
  const window = number(/(?:maximum context length is|context length is(?: only)?|must be <=|limit of|window of) ([\d,]+)/i);
  const prompt = number(
    /(?<![\d,])([\d,]+) (?:in the messages|of text input|(?:`?inputs`?|input|prompt) tokens|tokens (?:from|in) (?:the|your) (?:input|messages|prompt))/i,
  );
  return prompt < window;
}

/** The error gives the number of the prompt's tokens and the window's size, and the first is larger. */
function hasOverflowingCounts(numbers: ReadonlyMap<string, number>): boolean {
  const first = (names: readonly string[]) => names.map((name) => numbers.get(name)).find((value) => value !== undefined);
  const prompt = first(['n_prompt_tokens', 'prompt_tokens', 'input_tokens', 'num_tokens']);
  const window = first(['n_ctx', 'context_length', 'max_context_length', 'max_model_len', 'context_window', 'max_input_tokens']);
  return prompt !== undefined && window !== undefined && prompt >= window;
}
