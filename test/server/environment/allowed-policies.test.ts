import { describe, expect, it } from 'vitest';
import { AllowedPolicies, type AllowedPoliciesOptions } from '../../../src/server/environment/allowed-policies.ts';

const isServer = (options: AllowedPoliciesOptions, baseUrl: string) => refusal(() => new AllowedPolicies(options).assertServer(baseUrl)) === null;
const isSent = (allowed: readonly string[], variable: string, baseUrl: string) =>
  refusal(() => new AllowedPolicies({ allowedKeyVariables: allowed }).assertVariable(variable, 'api_key_var', baseUrl)) === null;

function refusal(claim: () => void): string | null {
  try {
    claim();
    return null;
  } catch (error) {
    return String(error);
  }
}

const LOCAL = ['http://127.0.0.1:9/v1', 'http://localhost/v1', 'http://[::1]:80/', 'http://127.1:9', 'http://0x7f000001/', 'http://2130706433/'];
const ELSEWHERE = [
  'http://10.0.0.1/',
  'http://169.254.169.254/latest',
  'http://[fe80::1]/',
  'http://[::ffff:127.0.0.1]/',
  'http://0.0.0.0:8000/',
  'http://[::]/',
  'http://127.0.0.1.example.com/',
  'http://localhost.example.com/',
  'http://localhost./',
  'http://127.0.0.1@example.com/',
  'http://192.168.0.7\\@127.0.0.1/',
];

describe('AllowedPolicies', () => {
  it('allows this machine to a server that this machine alone reaches, in every spelling, and nothing beyond it', () => {
    expect(LOCAL.filter((url) => !isServer({}, url))).toEqual([]);
    expect(ELSEWHERE.filter((url) => isServer({}, url))).toEqual([]);
    expect(['file:///etc/passwd', 'ftp://127.0.0.1/', '127.0.0.1:80', ''].filter((url) => isServer({}, url))).toEqual([]);
  });

  it('allows nothing to a server that is open to the network, but what its start names', () => {
    expect([...LOCAL, ...ELSEWHERE].filter((url) => isServer({ isOpen: true }, url))).toEqual([]);
    const open = { isOpen: true, allowedHosts: ['127.0.0.1:9', 'GPU-1', 'web:80', '::1'] };
    const named = ['http://127.0.0.1:9/v1', 'http://gpu-1:8000/v1', 'https://gpu-1/v1', 'http://web/', 'http://[::1]:7/'];
    expect(named.filter((url) => !isServer(open, url))).toEqual([]);
    expect(['http://127.0.0.1:10/', 'http://127.0.0.1/', 'https://web/', 'http://gpu-1.example.com/'].filter((url) => isServer(open, url))).toEqual(
      [],
    );
    expect(refusal(() => new AllowedPolicies({ isOpen: true }).assertServer('http://localhost:8001/v1'))).toMatch(
      /a service of the server's own machine.*--allow-policy-host localhost:8001 to allow that\.$/,
    );
  });

  it('sends no variable, whatever its name, but those that the start names, and to a named server alone', () => {
    for (const name of ['OPENAI_API_KEY', 'SERPER_API_KEY', 'HOME', '__proto__', '']) expect(isSent([], name, LOCAL[0]!)).toBe(false);
    expect(isSent(['OPENAI_API_KEY'], 'OPENAI_API_KEY', LOCAL[0]!)).toBe(true);
    expect(isSent(['OPENAI_API_KEY'], 'openai_api_key', LOCAL[0]!)).toBe(false);
    const bound = ['KEY@127.0.0.1:9', 'KEY@api.example.com'];
    expect(
      ['http://127.0.0.1:9/v1', 'https://api.example.com/v1', 'https://api.example.com:8443/v1'].filter((url) => !isSent(bound, 'KEY', url)),
    ).toEqual([]);
    expect(['http://127.0.0.1:10/v1', 'http://localhost:9/', 'https://api.example.com.evil/'].filter((url) => isSent(bound, 'KEY', url))).toEqual([]);
    expect(refusal(() => new AllowedPolicies({ allowedKeyVariables: bound }).assertVariable('KEY', 'api_key_var', 'http://x/'))).toMatch(
      /api_key_var is "KEY", which --allow-policy-key-var allows for another server than "http:\/\/x\/"\.$/,
    );
  });

  it('refuses hosts and variables that are none when the server starts, without showing a key', () => {
    for (const host of ['http://gpu-1', 'a b', 'x/y', 'user@host', '', 'host:99999'])
      expect(refusal(() => new AllowedPolicies({ allowedHosts: [host] }))).toMatch(/^ConfigError: --allow-policy-host .*is not a host/);
    expect(refusal(() => new AllowedPolicies({ allowedKeyVariables: ['sk-secret-1'] }))).toMatch(/^ConfigError: (?!.*sk-secret)/);
    expect(refusal(() => new AllowedPolicies({ allowedKeyVariables: ['KEY@a/b'] }))).toMatch(/--allow-policy-key-var KEY@a\/b is not a host/);
  });
});
