/** Requests that were put to a real vLLM and are put to the policy server, in this order, over test/models/nano-base with a chat template and adapters. */

export interface Probe {
  readonly name: string;
  readonly method?: 'GET' | 'POST';
  readonly path: string;
  /** `<good>` and the like stand for directories of adapters; text is sent as it is. */
  readonly body?: unknown;
  /** What this server does differently, and why. Fields that are left out are the same. */
  readonly differs?: {
    readonly because: string;
    readonly status?: number;
    /** Of the only choice. */
    readonly text?: string;
    readonly error?: { readonly type?: string; readonly param?: string | null };
  };
}

export const ADAPTERS = ['good', 'other', 'wide', 'strange', 'torn', 'misshapen', 'nan'] as const;

const IDS = [1022, 553, 25, 329, 71, 78, 329, 81, 78, 83, 68, 1040, 342];
const CHAT = [{ role: 'user', content: 'Question: who wrote it?' }];
const PLAIN = { model: 'nano-base', prompt: IDS, max_tokens: 12, temperature: 0, logprobs: 0, return_token_ids: true };

const completion = (name: string, body: object, differs?: Probe['differs']): Probe => ({
  name,
  path: '/v1/completions',
  body: { ...PLAIN, ...body },
  ...(differs === undefined ? {} : { differs }),
});
const chat = (name: string, body: object, differs?: Probe['differs']): Probe => ({
  name,
  path: '/v1/chat/completions',
  body: { model: 'nano-base', messages: CHAT, temperature: 0, max_completion_tokens: 6, ...body },
  ...(differs === undefined ? {} : { differs }),
});
const load = (name: string, body: object, differs?: Probe['differs']): Probe => ({
  name: `load: ${name}`,
  path: '/v1/load_lora_adapter',
  body,
  ...(differs === undefined ? {} : { differs }),
});

const READABLE = 'the request is to blame, so 400';
const FIELDS = 'the texts of wrong bodies are our own, and so is the field they name';

export const PROBES: readonly Probe[] = [
  { name: 'tokenize text', path: '/tokenize', body: { model: 'nano-base', prompt: 'Who wrote "Hamlet"? 苏黎世 🙂', add_special_tokens: false } },
  { name: 'tokenize messages', path: '/tokenize', body: { model: 'nano-base', messages: CHAT, return_token_strs: true } },
  {
    name: 'tokenize a turn to continue',
    path: '/tokenize',
    body: { messages: [...CHAT, { role: 'assistant', content: '<think>' }], add_generation_prompt: false, continue_final_message: true },
  },
  { name: 'tokenize nothing', path: '/tokenize', body: { model: 'nano-base' } },
  { name: 'tokenize with both flags', path: '/tokenize', body: { messages: CHAT, add_generation_prompt: true, continue_final_message: true } },
  { name: 'detokenize', path: '/detokenize', body: { model: 'nano-base', tokens: [...IDS, 1539, 162, 244] } },
  { name: 'models', method: 'GET', path: '/v1/models' },
  { name: 'health', method: 'GET', path: '/health' },
  { name: 'ping', method: 'GET', path: '/ping' },
  { name: 'version', method: 'GET', path: '/version' },
  { name: 'load', method: 'GET', path: '/load' },

  completion('ids', {}),
  completion('text', { prompt: 'Question: who wrote it?\n' }),
  completion('texts', { prompt: ['Question: who wrote it?\n', 'Who'] }),
  completion('several prompts', { prompt: [IDS, IDS.slice(0, 2)] }),
  completion('without log-probs and ids', { logprobs: null, return_token_ids: null }),
  completion('likeliest tokens', { logprobs: 3 }),
  completion('tokens as ids', { logprobs: 1, return_tokens_as_token_ids: true }),
  completion('log-probs of the prompt', { max_tokens: 1, prompt_logprobs: 2 }),
  completion('echo', { echo: true, return_token_ids: false, logprobs: null }),
  completion('echo with log-probs', { echo: true, logprobs: 1, max_tokens: 2 }),
  completion('half a character', { allowed_token_ids: [162], max_tokens: 3 }),
  completion('bytes that form no character', { allowed_token_ids: [162, 244, 229], max_tokens: 12 }),
  completion('broken bytes between characters', { allowed_token_ids: [10, 162, 329], max_tokens: 8 }),
  completion('broken bytes at the end', { allowed_token_ids: [10, 162, 329], max_tokens: 7 }),
  completion('the rest of a character that the prompt began', { prompt: [162], allowed_token_ids: [244, 229], max_tokens: 3 }),
  completion('text after a character that the prompt began', { prompt: [162], allowed_token_ids: [300], max_tokens: 2 }),
  completion(
    'the rest of a character that a longer prompt began',
    { prompt: [...IDS, 162], allowed_token_ids: [244, 229], max_tokens: 4 },
    { because: 'vLLM repeats the whole prompt', text: '懇' },
  ),
  completion('stop string', { stop: ['</answer>'] }),
  completion('stop string kept', { stop: ['an', 'swer'], include_stop_str_in_output: true }),
  completion('stop token', { stop_token_ids: [1541] }),
  completion('end token kept as text', { max_tokens: 30, skip_special_tokens: false }),
  completion('past the end', { max_tokens: 30, ignore_eos: true }),
  completion('not before', { max_tokens: 30, min_tokens: 20 }),
  completion('one allowed token', { allowed_token_ids: [300], max_tokens: 2, temperature: 1 }),
  completion('several choices', { n: 2, temperature: 1, allowed_token_ids: [300], max_tokens: 2 }),
  completion('the model left out', { model: null }),
  completion('a request id', { request_id: 'mine' }),
  completion('a cache salt', { cache_salt: 'v1' }),
  completion('a field that nobody knows', { bogus_field: 1 }),
  completion('the end of the window', { prompt: Array.from({ length: 2040 }, () => 300), max_tokens: 100, ignore_eos: true }),
  completion('neutral penalties', { presence_penalty: 0, frequency_penalty: 0, repetition_penalty: 1, logit_bias: null, best_of: 1 }),

  completion('unknown model', { model: 'nope' }),
  completion('a prompt of the whole window', { prompt: Array.from({ length: 2048 }, () => 300), max_tokens: 1 }),
  completion('a prompt beyond the window', { prompt: Array.from({ length: 2050 }, () => 300) }),
  completion('a token beyond the vocabulary', { prompt: [999_999] }),
  completion('a negative token', { prompt: [-1] }),
  completion('no prompt', { prompt: [] }),
  completion('an empty text', { prompt: '' }),
  completion('an empty prompt among others', { prompt: [IDS, []] }, { because: FIELDS, error: { param: 'prompt' } }),
  completion('text among ids', { prompt: [IDS, 'a'] }, { because: FIELDS, error: { param: 'body.prompt.1' } }),
  completion('no tokens', { max_tokens: 0 }),
  completion('tokens in words', { max_tokens: 'lots' }),
  completion('negative temperature', { temperature: -1 }),
  completion('hot', { temperature: 2.5 }),
  completion('top-p of 0', { top_p: 0 }),
  completion('top-k of -2', { top_k: -2 }, { because: 'it names the field', error: { param: 'top_k' } }),
  completion('min-p of 2', { min_p: 2 }, { because: 'it names the field', error: { param: 'min_p' } }),
  completion('more than all tokens', { min_tokens: 50 }, { because: 'it names the field', error: { param: 'min_tokens' } }),
  completion('too many log-probs', { logprobs: 100 }),
  completion('negative log-probs', { logprobs: -3 }),
  completion('an empty stop string', { stop: [''] }, { because: 'it names the field', error: { param: 'stop' } }),
  completion('five stop strings', { stop: ['a', 'b', 'c', 'd', 'e'] }, { because: FIELDS, error: { type: 'BadRequestError', param: 'stop' } }),
  completion('nothing allowed', { allowed_token_ids: [] }, { because: 'it names the field', error: { param: 'allowed_token_ids' } }),
  completion('a strange token allowed', { allowed_token_ids: [99_999] }, { because: 'it names the field', error: { param: 'allowed_token_ids' } }),
  completion('an empty salt', { cache_salt: '' }),
  completion('greedy choices', { n: 2 }, { because: 'it names the field', error: { param: 'n' } }),
  completion('stream options without a stream', { stream_options: { include_usage: true } }),
  completion(
    'a penalty',
    { repetition_penalty: 1.1 },
    {
      because: 'samples without a penalty that was asked for would be wrong',
      status: 400,
      error: { type: 'BadRequestError', param: 'repetition_penalty' },
    },
  ),
  { name: 'no JSON', path: '/v1/completions', body: '{"model": "nano-base", "prompt": [1,2', differs: { because: FIELDS, error: { param: 'body' } } },
  { name: 'no fields', path: '/v1/completions', body: {} },
  { name: 'no object', path: '/v1/completions', body: [1], differs: { because: FIELDS, error: { param: 'body' } } },
  { name: 'wrong method', method: 'GET', path: '/v1/completions' },
  { name: 'wrong path', method: 'GET', path: '/v1/nope' },

  chat('chat', {}),
  chat('chat with log-probs', { logprobs: true, top_logprobs: 0, return_token_ids: true }),
  chat('chat with the prompt shown', { return_prompt_text: true, return_token_ids: true }),
  chat('chat continued', {
    messages: [...CHAT, { role: 'assistant', content: '<think>' }],
    continue_final_message: true,
    add_generation_prompt: false,
  }),
  chat('chat in parts', {
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Question:' },
          { type: 'text', text: 'who?' },
        ],
      },
    ],
  }),
  chat('chat without messages', { messages: null }, { because: FIELDS, error: { type: 'Bad Request', param: 'body.messages' } }),
  chat('chat of a stranger', { model: 'nope' }),

  load('missing directory', { lora_name: 'v1', lora_path: '/adapters/none' }),
  load('missing field', { lora_name: 'v1' }),
  load('good', { lora_name: 'v1', lora_path: '<good>' }),
  load('taken name', { lora_name: 'v1', lora_path: '<good>' }),
  load('name of the base', { lora_name: 'nano-base', lora_path: '<good>' }),
  completion('through the adapter', { model: 'v1' }),
  completion('through the adapter, prompt judged', { model: 'v1', max_tokens: 1, prompt_logprobs: 0 }),
  { name: 'models with an adapter', method: 'GET', path: '/v1/models' },
  load('too wide', { lora_name: 'wide', lora_path: '<wide>' }, { because: READABLE, status: 400, error: { type: 'BadRequestError' } }),
  load('strange module', { lora_name: 'strange', lora_path: '<strange>' }, { because: READABLE, status: 400, error: { type: 'BadRequestError' } }),
  load('torn file', { lora_name: 'torn', lora_path: '<torn>' }, { because: READABLE, status: 400, error: { type: 'BadRequestError' } }),
  load('wrong shape', { lora_name: 'misshapen', lora_path: '<misshapen>' }, { because: 'vLLM serves garbage', status: 400 }),
  load('NaN', { lora_name: 'nan', lora_path: '<nan>' }, { because: 'on vLLM one NaN poisons every model', status: 400 }),
  { name: 'unload', path: '/v1/unload_lora_adapter', body: { lora_name: 'v1' } },
  { name: 'unload again', path: '/v1/unload_lora_adapter', body: { lora_name: 'v1' } },
  completion('through what was unloaded', { model: 'v1' }),
  load('the same name, other weights', { lora_name: 'v1', lora_path: '<other>' }),
  completion('through other weights of the same name', { model: 'v1' }),
  { name: 'reset the cache', path: '/reset_prefix_cache' },
  {
    name: 'generate',
    path: '/inference/v1/generate',
    body: { model: 'nano-base', token_ids: IDS },
    differs: { because: 'there is no such route', status: 404 },
  },
];
