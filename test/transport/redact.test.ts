import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { hideAddresses, hideSecrets, isSecretName, redactSecrets, redactUrl } from '../../src/transport/redact.ts';

describe('redactUrl', () => {
  test.each([
    ['http://user:pass@host:8000/v1?x=1', 'http://***@host:8000/v1?x=1'],
    ['https://token@host/', 'https://***@host/'],
    ['http://a:p@ss@host/v1', 'http://***@host/v1'],
    ['http://host/v1?api_key=abc&topk=3', 'http://host/v1?api_key=***&topk=3'],
    ['http://host/v1?api-version=2&sig=abc#access_token=t', 'http://host/v1?api-version=2&sig=***#access_token=***'],
    ['cannot reach http://u:p@a/ nor http://u:p@b/', 'cannot reach http://***@a/ nor http://***@b/'],
    ['http://host/v1/@scope/x?q=user@example.org', 'http://host/v1/@scope/x?q=user@example.org'],
    ["'http://host/?key=***' '&sig=***abc'", "'http://host/?key=***' '&sig=***"],
    ['no url: a@b?', 'no url: a@b?'],
  ])('%s becomes %s', (url, redacted) => expect(redactUrl(url)).toBe(redacted));

  test.each([
    ['letters', 'a'.repeat(2_000_000)],
    ['secret names', `&${'key'.repeat(700_000)}`],
    ['schemes', 'http://'.repeat(300_000)],
    ['user signs', `http://${'a@'.repeat(1_000_000)}`],
    ['parameters', '&a='.repeat(700_000)],
  ])('reads 2 MB of %s in one pass', (_name, text) => expect(redactUrl(text).length).toBeGreaterThan(0));

  test('never leaves the password {any user, any password}', () => {
    const part = fc.stringMatching(/^[\w!$%*~.:-]{6,12}$/);
    fc.assert(
      fc.property(part, part, (user, password) => {
        expect(redactUrl(`http://${user}:${password}@host/path`)).toBe('http://***@host/path');
      }),
      { numRuns: 100 },
    );
  });
});

describe('isSecretName', () => {
  const secret =
    'api_key X-Auth serperToken password Authorization hub_token api_keys apiKeys apiKey apikey APIKey X-API-Key key keys token tokens access_tokens ' +
    'accessToken refresh_token client_secret secrets credentials cookie Set-Cookie passwd pwd sig X-Amz-Signature X-Amz-Security-Token session_token_2 service_token token_v2 oauth AWSAccessKeyId awsaccesskeyid';
  test.each(secret.split(' '))('%s is one', (name) => expect(isSecretName(name)).toBe(true));

  const ordinary =
    'max_tokens max_new_tokens stop_tokens eos_token pad_token tokenizer monkey topk author authority answer_key answerKey primary_key cache_key ' +
    'keyword keywords api_key_var key_file tokens_per_second output_tokens secretary';
  test.each([...ordinary.split(' '), 'a key'])('%s is none', (name) => expect(isSecretName(name)).toBe(false));
});

describe('hideSecrets', () => {
  test('hides texts under a secret name, however deep, and credentials in URLs; numbers and other texts stay', () => {
    const settings = {
      api_keys: ['k1', { backup: 'k2' }],
      access: { tokens: { a: 'k3' }, url: 'http://me:pw@host/?key=k4&topk=3' },
      answer_key: 'B',
      max_tokens: 5,
      tokens: 7,
    };
    expect(hideSecrets(settings)).toEqual({
      api_keys: ['***', { backup: '***' }],
      access: { tokens: { a: '***' }, url: 'http://***@host/?key=***&topk=3' },
      answer_key: 'B',
      max_tokens: 5,
      tokens: 7,
    });
    expect(hideSecrets('k5', 'token')).toBe('***');
  });
});

describe('redactSecrets', () => {
  test('hides every occurrence, percent-encoded ones too', () => {
    expect(redactSecrets('a s3/cret b s3%2Fcret s3/cret', ['s3/cret'])).toBe('a *** b *** ***');
  });
  test('hides a secret that contains another one whole', () => {
    expect(redactSecrets('sk-abc-def', ['sk-abc', 'sk-abc-def'])).toBe('***');
  });
  test('leaves text alone for secrets too short to be any', () => {
    expect(redactSecrets('a b c', ['', 'a', 'b c'])).toBe('a b c');
  });
  test('takes a secret with a lone surrogate', () => {
    expect(redactSecrets('x\ud800yz!', ['x\ud800yz'])).toBe('***!');
  });
});

describe('hideAddresses', () => {
  test.each([
    ['npx vf-eval x -b http://10.0.0.5:8000/v1 -m m', 'npx vf-eval x -b URL -m m'],
    [
      `-a '{"retriever":"https://me:pw@host/retrieve?a=b","others":["http://a","http://[::1]:80/v1"]}'`,
      `-a '{"retriever":"URL","others":["URL","URL"]}'`,
    ],
    ['(see HTTP://Host.lan/x).', '(see URL).'],
    ['[Qwen/Qwen3](https://huggingface.co/Qwen/Qwen3)', '[Qwen/Qwen3](https://huggingface.co/Qwen/Qwen3)'],
    ['https://huggingface.co.evil.org/x https://huggingface.co:pw@host', 'URL URL'],
    ['no address: http, a://b', 'no address: http, a://b'],
  ])('%s becomes %s', (text, hidden) => expect(hideAddresses(text)).toBe(hidden));
});
