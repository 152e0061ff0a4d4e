/**
 * Rejects invalid requests before anything runs. Messages and field names are those of vLLM for the same fault: clients know them, and the policy server passes them
 * on unchanged.
 */
import { EngineInputError, type EngineInputCode } from './engine-errors.ts';
import type { GenerateRequest } from './engine-types.ts';

/** vLLM's default for --max-logprobs. */
const MAX_LOG_PROBS = 20;
/** vLLM's upper bound. */
const MAX_TEMPERATURE = 2;

export interface RequestBounds {
  readonly vocabularySize: number;
  readonly maxModelLen: number;
}

/** Throws EngineInputError. */
export function checkRequest(request: GenerateRequest, bounds: RequestBounds): void {
  checkPrompt(request.prompt, bounds);
  checkLengths(request);
  checkSampling(request.sampling);
  checkStop(request.stop, bounds);
  checkLogProbs(request.logProbs, 'logprobs', 'sample');
  checkLogProbs(request.promptLogProbs, 'prompt_logprobs', 'prompt');
  checkAllowed(request.allowedTokenIds, bounds);
}

function checkPrompt(prompt: Int32Array, { vocabularySize, maxModelLen }: RequestBounds): void {
  const n = prompt.length;
  if (n === 0) throw new EngineInputError('You must pass at least one prompt', { param: 'prompt' });
  if (n > maxModelLen) {
    const limit = `This model's maximum context length is ${maxModelLen} tokens. However, your prompt contains at least ${n} input tokens`;
    refuse(
      `${limit}, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.`,
      'input_tokens',
      n,
      'too_long',
    );
  }
  if (n === maxModelLen) refuse('max_tokens must be at least 1, got 0.', 'max_tokens', 0, 'too_long');
  const outside = prompt.find((id) => id < 0 || id >= vocabularySize);
  if (outside !== undefined) throw new EngineInputError(`Token id ${outside} is out of vocabulary`, { param: 'prompt' });
}

function checkLengths({ maxTokens, stop: { minTokens } }: GenerateRequest): void {
  if (!Number.isInteger(maxTokens) || maxTokens < 1) refuse(`max_tokens must be at least 1, got ${maxTokens}.`, 'max_tokens', maxTokens);
  if (!Number.isInteger(minTokens) || minTokens < 0)
    refuse(`min_tokens must be greater than or equal to 0, got ${minTokens}.`, 'min_tokens', minTokens);
  if (minTokens > maxTokens) refuse(`min_tokens must be less than or equal to max_tokens=${maxTokens}, got ${minTokens}.`, 'min_tokens', minTokens);
}

function checkSampling({ temperature, topP, topK, minP, seed }: GenerateRequest['sampling']): void {
  if (!Number.isFinite(temperature)) refuse(`temperature must be a finite number, got ${temperature}.`, 'temperature', temperature);
  if (temperature < 0) refuse(`temperature must be non-negative, got ${temperature}.`, 'temperature', temperature);
  if (temperature > MAX_TEMPERATURE) refuse(`temperature must be in [0, ${MAX_TEMPERATURE}], got ${temperature}.`, 'temperature', temperature);
  if (!(topP > 0 && topP <= 1)) refuse(`top_p must be in (0, 1], got ${topP}.`, 'top_p', topP);
  if (!Number.isInteger(topK)) refuse(`top_k must be an integer, got ${topK}`, 'top_k', topK);
  if (topK < -1) refuse(`top_k must be 0 (disable), or at least 1, got ${topK}.`, 'top_k', topK);
  if (!(minP >= 0 && minP <= 1)) refuse(`min_p must be in [0, 1], got ${minP}.`, 'min_p', minP);
  if (seed !== null && !Number.isInteger(seed)) refuse(`seed must be an integer, got ${seed}.`, 'seed', seed);
}

function checkStop({ strings, tokenIds }: GenerateRequest['stop'], { vocabularySize }: RequestBounds): void {
  if (strings.includes('')) throw new EngineInputError('stop cannot contain an empty string.', { param: 'stop' });
  const outside = tokenIds.filter((id) => !isToken(id, vocabularySize));
  if (outside.length === 0) return;
  const shown = outside.slice(0, 8).join(', ');
  const text = `token_id(s) [${shown}] in stop_token_ids contain out-of-vocab token ids. Vocabulary size: ${vocabularySize}`;
  refuse(text, 'stop_token_ids', `[${shown}]`);
}

function checkLogProbs(count: number | null, param: string, of: string): void {
  if (count === null) return;
  if (!Number.isInteger(count) || count < 0) refuse(`${param} must be non-negative, got ${count}.`, param, count);
  if (count > MAX_LOG_PROBS) refuse(`Requested ${of} logprobs of ${count}, which is greater than max allowed: ${MAX_LOG_PROBS}`, param, count);
}

function checkAllowed(ids: readonly number[] | null, { vocabularySize }: RequestBounds): void {
  if (ids === null) return;
  if (ids.length === 0) refuse('allowed_token_ids is not None and empty!', 'allowed_token_ids', '[]');
  const outside = ids.find((id) => !isToken(id, vocabularySize));
  if (outside !== undefined) refuse('allowed_token_ids contains out-of-vocab token id!', 'allowed_token_ids', outside);
}

const isToken = (id: number, vocabularySize: number): boolean => Number.isInteger(id) && id >= 0 && id < vocabularySize;

function refuse(text: string, param: string, value: number | string, code: EngineInputCode = 'invalid'): never {
  throw new EngineInputError(`${text} (parameter=${param}, value=${value})`, { param, code });
}
