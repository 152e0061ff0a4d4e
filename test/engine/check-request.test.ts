import { describe, expect, it } from 'vitest';
import { checkRequest } from '../../src/engine/check-request.ts';
import { EngineInputError } from '../../src/engine/engine-errors.ts';
import type { GenerateRequest } from '../../src/engine/engine-types.ts';
import { nanoRequest } from './nano-requests.ts';

const BOUNDS = { vocabularySize: 1597, maxModelLen: 2048 };
const VALID = nanoRequest({ prompt: Int32Array.of(57, 74, 81), maxTokens: 8 });
const sampling = (part: Partial<GenerateRequest['sampling']>) => ({ sampling: { ...VALID.sampling, ...part } });
const stop = (part: Partial<GenerateRequest['stop']>) => ({ stop: { ...VALID.stop, ...part } });

describe('checkRequest', () => {
  it.each<[string, Partial<GenerateRequest>]>([
    ['a prompt that leaves room for one token', { prompt: new Int32Array(2047) }],
    ['more tokens than fit', { maxTokens: 100_000 }],
    ['a temperature of 0 and of 2', sampling({ temperature: 2 })],
    ['top-k switched off either way', sampling({ topK: 0 })],
    ['the bounds of top-p and min-p', sampling({ topP: 1, minP: 1 })],
    ['no seed, and a negative one', sampling({ seed: -5 })],
    ['20 log-probs', { logProbs: 20, promptLogProbs: 20 }],
  ])('lets %s pass', (_, part) => {
    expect(() => checkRequest({ ...VALID, ...part }, BOUNDS)).not.toThrow();
  });

  // Texts and fields as a real vLLM 0.32.0 answers them.
  it.each<[Partial<GenerateRequest>, string | null, string]>([
    [{ prompt: new Int32Array(0) }, 'prompt', 'You must pass at least one prompt'],
    [{ prompt: Int32Array.of(5, 999_999) }, 'prompt', 'Token id 999999 is out of vocabulary'],
    [{ prompt: Int32Array.of(-1) }, 'prompt', 'Token id -1 is out of vocabulary'],
    [
      { prompt: new Int32Array(2049) },
      'input_tokens',
      "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=2049)",
    ],
    [{ prompt: new Int32Array(2048) }, 'max_tokens', 'max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)'],
    [{ maxTokens: 0 }, 'max_tokens', 'max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)'],
    [{ maxTokens: 1.5 }, 'max_tokens', 'max_tokens must be at least 1, got 1.5. (parameter=max_tokens, value=1.5)'],
    [sampling({ temperature: -1 }), 'temperature', 'temperature must be non-negative, got -1. (parameter=temperature, value=-1)'],
    [sampling({ temperature: 3 }), 'temperature', 'temperature must be in [0, 2], got 3. (parameter=temperature, value=3)'],
    [sampling({ temperature: NaN }), 'temperature', 'temperature must be a finite number, got NaN. (parameter=temperature, value=NaN)'],
    [sampling({ topP: 0 }), 'top_p', 'top_p must be in (0, 1], got 0. (parameter=top_p, value=0)'],
    [sampling({ topP: NaN }), 'top_p', 'top_p must be in (0, 1], got NaN. (parameter=top_p, value=NaN)'],
    [sampling({ topK: -2 }), 'top_k', 'top_k must be 0 (disable), or at least 1, got -2. (parameter=top_k, value=-2)'],
    [sampling({ topK: 1.5 }), 'top_k', 'top_k must be an integer, got 1.5 (parameter=top_k, value=1.5)'],
    [sampling({ minP: 2 }), 'min_p', 'min_p must be in [0, 1], got 2. (parameter=min_p, value=2)'],
    [sampling({ seed: 0.5 }), 'seed', 'seed must be an integer, got 0.5. (parameter=seed, value=0.5)'],
    [stop({ minTokens: 9 }), 'min_tokens', 'min_tokens must be less than or equal to max_tokens=8, got 9. (parameter=min_tokens, value=9)'],
    [stop({ minTokens: -1 }), 'min_tokens', 'min_tokens must be greater than or equal to 0, got -1. (parameter=min_tokens, value=-1)'],
    [stop({ strings: ['</s>', ''] }), 'stop', 'stop cannot contain an empty string.'],
    [
      stop({ tokenIds: [3, 1597] }),
      'stop_token_ids',
      'token_id(s) [1597] in stop_token_ids contain out-of-vocab token ids. Vocabulary size: 1597 (parameter=stop_token_ids, value=[1597])',
    ],
    [{ logProbs: 100 }, 'logprobs', 'Requested sample logprobs of 100, which is greater than max allowed: 20 (parameter=logprobs, value=100)'],
    [{ logProbs: -2 }, 'logprobs', 'logprobs must be non-negative, got -2. (parameter=logprobs, value=-2)'],
    [
      { promptLogProbs: 21 },
      'prompt_logprobs',
      'Requested prompt logprobs of 21, which is greater than max allowed: 20 (parameter=prompt_logprobs, value=21)',
    ],
    [{ allowedTokenIds: [] }, 'allowed_token_ids', 'allowed_token_ids is not None and empty! (parameter=allowed_token_ids, value=[])'],
    [{ allowedTokenIds: [4, -1] }, 'allowed_token_ids', 'allowed_token_ids contains out-of-vocab token id! (parameter=allowed_token_ids, value=-1)'],
  ])('refuses %j and names %s', (part, param, message) => {
    const refusal = caught(() => checkRequest({ ...VALID, ...part }, BOUNDS));
    expect(refusal).toBeInstanceOf(EngineInputError);
    expect(refusal).toMatchObject({ message, param });
  });

  it('distinguishes a prompt that is too long from all other faults', () => {
    const code = (part: Partial<GenerateRequest>) => (caught(() => checkRequest({ ...VALID, ...part }, BOUNDS)) as EngineInputError).code;
    expect(code({ prompt: new Int32Array(2048) })).toBe('too_long');
    expect(code({ prompt: new Int32Array(2049) })).toBe('too_long');
    expect(code({ maxTokens: 0 })).toBe('invalid');
  });
});

function caught(call: () => void): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  throw new Error('expected a refusal');
}
