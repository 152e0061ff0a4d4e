import { describe, expect, it } from 'vitest';
import { promptFits, refusesLength } from '../../src/clients/prompt-length-error.ts';

const answered = (body: unknown, status = 400) => ({
  status,
  headers: {},
  body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
});
const said = (message: string, more: object = {}) => ({ error: { message, ...more } });

describe('refusesLength', () => {
  it.each([
    [
      'OpenAI',
      said("This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.", {
        code: 'context_length_exceeded',
      }),
    ],
    ['OpenAI Responses', said('Your input exceeds the context window of this model. Please adjust your input and try again.')],
    ['Anthropic', { type: 'error', error: { type: 'invalid_request_error', message: 'prompt is too long: 213462 tokens > 200000 maximum' } }],
    [
      'Gemini',
      [said('The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).', { code: 400, status: 'INVALID_ARGUMENT' })],
    ],
    ['Bedrock', { message: 'ValidationException: The input is too long for the requested model.' }],
    ['Bedrock', { message: 'ValidationException: Input exceeds the max input token limit' }],
    ['DeepSeek', said("This model's maximum context length is 131072 tokens. However, you requested 140000 tokens.")],
    ['xAI', said("This model's maximum prompt length is 131072 but the request contains 537812 tokens.")],
    ['Vertex', said('The input token count is 40000 but model only supports up to 32768.')],
    ['Copilot without a code', said('prompt token count of 130000 exceeds the limit of 128000')],
    ['SambaNova', said('The provided prompt is 10000 tokens long, but the maximum supported sequence length is 8192')],
    ['SiliconFlow', { code: 20015, message: 'length of prompt_tokens (40000) must be less than max_seq_len (32768).', data: null }],
    ['Volcengine', said('Total tokens of image and text exceed max message tokens')],
    ['Qianfan', { error_code: 336007, message: 'the max input characters is 11200' }],
    ['Bedrock', { message: 'too many total text bytes: 1000000 > 800000' }],
    ['a server of GLM without a code', said('prompt exceeds max length')],
    ['a server in Chinese', said('输入长度超过模型最大长度')],
    ['a sum', said('input_tokens + max_new_tokens must be <= 8192. Given: 9000')],
    ['Groq', said('Please reduce the length of the messages or completion.', { code: 'context_length_exceeded' })],
    ['Mistral', { message: 'Prompt contains 40000 tokens, too large for model with 32768 maximum context length' }],
    ['Together', said("The input (150000 tokens) is longer than the model's context length (131072 tokens).")],
    ['Fireworks', said('The prompt is too long: 140000, model maximum context length: 131071')],
    ['Cohere', { message: "too many tokens: total tokens exceeds the model's max of 4096" }],
    ['Moonshot', said('Invalid request: Your request exceeded model token limit: 131072')],
    ['MiniMax', said('invalid params, context window exceeds limit (2013)')],
    ['DashScope', said('Range of input length should be [1, 129024]')],
    ['GLM', said('Prompt exceeds max length', { code: '1261' })],
    ['Copilot', said('prompt token count of 130000 exceeds the limit of 128000', { code: 'model_max_prompt_tokens_exceeded' })],
    ['OpenRouter', said("This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens")],
    ['LiteLLM', said('litellm.ContextWindowExceededError: litellm.BadRequestError: context too long', { type: 'ContextWindowExceededError' })],
    ['TGI', { error: 'Input validation error: `inputs` must have less than 4096 tokens. Given: 5000', error_type: 'validation' }],
    ['TGI', { error: 'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 and 500', error_type: 'validation' }],
    ['Perplexity', said('Input is too long: 140000 tokens in messages exceed the limit')],
    ['Ollama', { error: 'prompt too long; exceeded max context length by 4 tokens' }],
    ['LM Studio', { error: 'The number of tokens to keep from the initial prompt is greater than the context length.' }],
    [
      'llama.cpp',
      said('request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it', {
        type: 'exceed_context_size_error',
        n_prompt_tokens: 9412,
        n_ctx: 8192,
      }),
    ],
    ['llama.cpp', said('try again', { n_prompt_tokens: 9412, n_ctx: 8192 })],
    [
      'SGLang',
      said('Input length (9000 tokens) exceeds the maximum allowed length (8192 tokens). Use a shorter input or enable --allow-auto-truncate.'),
    ],
    ['SGLang', said("Requested token count exceeds the model's maximum context length of 8192 tokens.")],
    [
      'vLLM',
      said(
        "This model's maximum context length is 8192 tokens. However, you requested 0 output tokens and your prompt contains at least 8193 input tokens.",
        { param: 'input_tokens' },
      ),
    ],
    [
      'OpenRouter, of its provider',
      said('Provider returned error', { code: 400, metadata: { raw: 'prompt is too long: 200001 tokens > 200000 maximum' } }),
    ],
    [
      'OpenRouter, of its provider',
      said('Provider returned error', { code: 400, metadata: { raw: JSON.stringify({ error: { message: 'x', code: 'context_length_exceeded' } }) } }),
    ],
    ['TabbyAPI', { detail: 'Prompt length 9001 is greater than max_seq_len 8192' }],
    ['AI21', { detail: 'Request too long: 300000 tokens, max is 262144' }],
    ['KoboldCpp', { detail: { msg: 'Max context exceeded', type: 'bad_input' } }],
    ['Writer', { errors: [{ description: 'Content is too long', key: 'fail.input.invalid' }] }],
    ['Baidu', said('Prompt tokens too long', { code: 'tokens_too_long' })],
    [
      'Cloudflare',
      {
        errors: [
          {
            message: 'AiError: The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (7968).',
            code: 5021,
          },
        ],
        success: false,
      },
    ],
    ['Poolside', said('Input text token length 140000 exceeds the maximum 131072 tokens')],
  ])('knows the words of %s (%#)', (_, body) => {
    expect(refusesLength(answered(body))).toBe(true);
  });

  it.each([
    ['nginx', '<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body><h1>413 Request Entity Too Large</h1></body></html>'],
    ['Cloudflare', '<html><head><title>413 Payload Too Large</title></head><body><center>cloudflare</center><img src="image.png"></body></html>'],
    ['Vercel', said('Request Entity Too Large', { code: 'FUNCTION_PAYLOAD_TOO_LARGE' })],
    ['axum', 'Failed to buffer the request body: length limit exceeded'],
    ['GitHub', said('Request body too large for gpt-4o model. Max size: 8000 tokens.', { code: 'tokens_limit_reached' })],
  ])('knows the 413 of %s', (_, body) => {
    expect(refusesLength(answered(body, 413))).toBe(true);
  });

  it('takes the 413 of Groq for a rate limit', () => {
    const message =
      'Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 7214, please reduce your message size and try again.';
    expect(refusesLength(answered(said(message, { code: 'rate_limit_exceeded' }), 413))).toBe(false);
  });

  it('knows a 500 of llama.cpp, and refusals of Cerebras without a body', () => {
    expect(refusesLength(answered(said('Context size has been exceeded.'), 500))).toBe(true);
    expect([refusesLength(answered('', 400)), refusesLength(answered('', 413))]).toEqual([true, true]);
  });

  it.each([
    ['a rate limit', said('Too many tokens per minute, limit 30000')],
    ['a throttled request', { message: 'ThrottlingException: Too many tokens, please wait before trying again (rate limit)' }],
    ['an image', said('The image is too large: maximum 20 MB')],
    ['another field', said("Unsupported parameter: 'max_tokens'")],
    ['a wrong limit', said('max_tokens must be at most 8192')],
    ['a limit beyond the model', said('max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens')],
    ['too many stop strings', said("Invalid 'stop': array too long. Expected an array with maximum length 4")],
    ['a tool', said("Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024")],
    ['the limit of new tokens of Bedrock', said('The maximum tokens you requested exceeds the model limit of 4096. Try again with a lower value.')],
    [
      'the limit of Groq',
      said('`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window`'),
    ],
    [
      'the limit of Cohere',
      said('too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - received 9000.'),
    ],
    ['the limit of an output', said('The number of output tokens exceeds the maximum output limit 4096 tokens')],
    ['a schema', said('tools: the maximum input schema depth exceeded')],
  ])('is false of %s', (_, body) => {
    expect(refusesLength(answered(body))).toBe(false);
  });

  it('tells a limit of new tokens by the numbers: the prompt alone fits', () => {
    const fits = [
      '`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 120 `inputs` tokens and 8192 `max_new_tokens`',
      "This model's maximum context length is 4097 tokens. However, you requested 4200 tokens (100 in the messages, 4100 in the completion).",
    ];
    expect(fits.map(promptFits)).toEqual([true, true]);
    const full = [
      'maximum context length is 4097 tokens. However, you requested 5100 tokens (5000 in the messages, 100 in the completion).',
      'prompt is too long',
    ];
    expect(full.map(promptFits)).toEqual([false, false]);
  });

  it('is false of other failures of a server', () => {
    expect(refusesLength(answered(said('The model is too large for this GPU'), 500))).toBe(false);
    expect(refusesLength(answered(said('maximum context length'), 429))).toBe(false);
  });
});
