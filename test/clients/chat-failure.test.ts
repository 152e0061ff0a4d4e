import { describe, expect, test } from 'vitest';
import { chatBodyError, chatError } from '../../src/clients/chat-failure.ts';

const context = { failure: '[POST] …', hide: (text: string) => text, model: 'm', apiKeyVariable: 'KEY', url: 'http://host/v1', hasAnswered: true };
const response = (status: number, body: object | string, headers = {}) => ({
  status,
  headers,
  body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
});

describe('chatError', () => {
  test.each<[string, number, object]>([
    ['DeepSeek', 402, { error: { message: 'Insufficient Balance', type: 'unknown_error', code: 'invalid_request_error' } }],
    ['OpenRouter', 402, { error: { message: 'This request requires more credits, or fewer max_tokens.', code: 402 } }],
    ['OpenAI', 429, { error: { message: 'You exceeded your current quota', type: 'insufficient_quota', code: 'insufficient_quota' } }],
    ['OpenAI, a hard limit', 400, { error: { message: 'Billing hard limit has been reached', code: 'billing_hard_limit_reached' } }],
    ['Anthropic', 400, { error: { type: 'invalid_request_error', message: 'Your credit balance is too low to access the Anthropic API.' } }],
    [
      'Moonshot',
      429,
      { error: { message: 'Your account is suspended, please check your plan and billing details', type: 'exceeded_current_quota_error' } },
    ],
    ['Zhipu', 429, { error: { code: '1113', message: '余额不足或无可用资源包,请充值。' } }],
    ['SiliconFlow', 403, { code: 30001, message: 'Sorry, your account balance is insufficient' }],
    ['DashScope', 403, { error: { code: 'AllocationQuota.FreeTierOnly', message: 'The free tier of the model has been exhausted.' } }],
    ['DashScope, overdue', 400, { error: { code: 'Arrearage', message: 'Access denied, please make sure your account is in good standing.' } }],
  ])('ends the run when an account cannot pay: %s', (_, status, body) => {
    expect(chatError(context, response(status, body))).toMatchObject({
      endsRun: true,
      retryable: false,
      message: expect.stringContaining('billing'),
    });
  });

  test.each<[string, number, unknown]>([
    [
      'Gemini, per minute',
      429,
      [
        {
          error: { code: 429, message: 'You exceeded your current quota, please check your plan and billing details.', status: 'RESOURCE_EXHAUSTED' },
        },
      ],
    ],
    ['OpenRouter, per minute', 429, { error: { message: 'Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000', code: 429 } }],
    ['OpenAI', 429, { error: { message: 'Rate limit reached for gpt-4o', type: 'requests', code: 'rate_limit_exceeded' } }],
    ['Anthropic', 529, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }],
  ])('takes a rate limit for no empty account: %s', (_, status, body) => {
    expect(chatError(context, response(status, body as object))).toMatchObject({ endsRun: false, retryable: true, status });
  });

  test.each([429, 413])('a request that exceeds the limit alone is not repeated: %i', (status) => {
    const message = 'Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000.';
    expect(chatError(context, response(status, { error: { message, code: 'rate_limit_exceeded' } }))).toMatchObject({
      retryable: false,
      endsRun: false,
    });
  });

  test.each([404, 405])('a %i from a base URL without /v1 names the URL with it and ends a run that had no completion', (status) => {
    const error = chatError({ ...context, url: 'http://host:1234', hasAnswered: false }, response(status, 'Not Found'));
    expect(error).toMatchObject({ endsRun: true, message: expect.stringContaining('try http://host:1234/v1') });
  });

  test('a 404 that names the model gets no hint about the path', () => {
    const error = chatError({ ...context, url: 'http://host' }, response(404, { error: { message: 'model "m" not found' } }));
    expect(error.message).toMatch(/does not serve the model "m".*Check the model/);
  });

  test('a 404 of Azure, whose version is in the query, gets no hint about the path', () => {
    const azure = { ...context, url: 'https://host/openai/deployments/m?api-version=2024-10-21' };
    const error = chatError(
      azure,
      response(404, { error: { code: 'DeploymentNotFound', message: 'The API deployment for this resource does not exist.' } }),
    );
    expect(error.message).toMatch(/does not serve the model "m".*Check the model/);
  });

  test('the page of a firewall is not a refusal of the key', () => {
    const error = chatError({ ...context, hasAnswered: false }, response(403, '<!DOCTYPE html><title>Attention Required! | Cloudflare</title>'));
    expect(error).toMatchObject({ endsRun: true, message: expect.stringMatching(/^A firewall or proxy before the server refuses/) });
  });

  test('a redirect names its target without secrets', () => {
    const error = chatError({ ...context, hasAnswered: false }, response(308, '', { location: 'https://me:secret@host/v1/chat/completions' }));
    expect(error).toMatchObject({ endsRun: true, message: expect.stringContaining('https://***@host/v1/chat/completions') });
  });
});

describe('chatBodyError', () => {
  const without = { ...context, url: 'http://127.0.0.1:1234', hasAnswered: false };
  const body = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));

  test.each<[string, unknown]>([
    ['LM Studio', { error: 'Unexpected endpoint or method. (POST /chat/completions)' }],
    ['an object', { error: { message: 'no such route' } }],
    ['a page', '<!doctype html><title>Open WebUI</title>'],
  ])('an error with status 200 from a base URL without /v1 gets the hint and ends the run: %s', (_, value) => {
    expect(chatBodyError(without, body(value))).toMatchObject({
      endsRun: true,
      retryable: false,
      message: expect.stringContaining('try http://127.0.0.1:1234/v1'),
    });
  });

  test('a web page from a base URL with /v1 may pass, but not at the first completion', () => {
    expect(chatBodyError(context, body('<html>'))).toMatchObject({ endsRun: false, retryable: true });
    expect(chatBodyError({ ...context, hasAnswered: false }, body('<html>'))).toMatchObject({ endsRun: true, retryable: true });
  });

  test.each<[unknown, object]>([
    [{ error: { message: 'no credits', code: 402 } }, { status: 402, endsRun: true }],
    [{ error: { message: 'slow down', code: 429 } }, { status: 429, retryable: true }],
    [{ error: { message: 'No auth credentials found', code: 401 } }, { status: 401, endsRun: true }],
    [
      { base_resp: { status_code: 1008, status_msg: 'insufficient balance' }, choices: null },
      { status: 402, endsRun: true },
    ],
    [
      { object: 'error', message: 'slow down', type: 'TooManyRequests', code: 429 },
      { status: 429, retryable: true },
    ],
    [{ object: 'error', message: "This model's maximum context length is 4096 tokens" }, { name: 'PromptTooLongError' }],
    [{ detail: 'Input is too long for this model' }, { name: 'PromptTooLongError' }],
    [{ base_resp: { status_code: 1002, status_msg: 'rate limit' } }, { status: 429, retryable: true }],
  ])('an error in the body of a 200 counts as its status: %j', (value, expected) => {
    expect(chatBodyError(context, body(value))).toMatchObject(expected);
  });

  test('a completion is left to its reader', () => {
    const choices = [{ finish_reason: 'stop', message: { content: 'ok' } }];
    for (const more of [{}, { error: null }, { base_resp: { status_code: 0, status_msg: '' } }, { error: { code: 402 } }])
      expect(chatBodyError(without, body({ choices, ...more }))).toBeNull();
    expect(chatBodyError(context, body({ error: { message: 'upstream failed' } }))).toBeNull();
  });
});
