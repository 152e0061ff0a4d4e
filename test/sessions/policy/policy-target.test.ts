import { describe, expect, it } from 'vitest';
import { type EndpointTarget, type PolicyTarget, resolvePolicyTarget } from '../../../src/sessions/policy/policy-target.ts';
import type { PolicySpec } from '../../../src/sessions/policy/policy-spec.ts';
import { PROPERTY_NAMES } from '../../../src/sessions/setting-names.ts';
import { secretsOf } from '../../../src/sessions/policy/secrets.ts';
import { evaluationRequest, FLAG_NAMES } from '../../../src/cli/eval/evaluation-request.ts';
import type { Settings } from '../../../src/cli/eval/eval-options.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

const REGISTRY = `
[[endpoint]]
endpoint_id = "twins"
model = "org/model"
url = "http://127.0.0.1:1/v1"
key = "TWIN_KEY"
type = "openai_completions"
headers = { "X-Team" = "a" }
[[endpoint]]
endpoint_id = "twins"
model = "org/model"
api_base_url = "http://127.0.0.1:2/v1"
api_key_var = "TWIN_KEY"
api_client_type = "openai_completions"
extra_headers = { "X-Team" = "a" }
[[endpoint]]
endpoint_id = "far"
model = "far-model"
url = "https://far.example/v1"
key = "FAR_KEY"
`;

async function resolve(settings: Settings, variables: Record<string, string> = {}, registry = REGISTRY) {
  using folder = new TemporaryFolder();
  return await resolveFlags({ endpointsPath: folder.write('endpoints.toml', registry), ...settings }, variables);
}

const bundledModel = async () => 'nano-base';

function resolveFlags(settings: Settings, variables: Record<string, string>) {
  return resolvePolicyTarget(evaluationRequest({ name: null, envId: 'capitals', settings }).policy!, { variables, names: FLAG_NAMES, bundledModel });
}

describe('resolvePolicyTarget', () => {
  it('plays a directory in this process with -p embedded, whatever server the variables name', async () => {
    const variables = { VF_BASE_URL: 'http://h/v1', VF_MODEL: 'm' };
    expect(await resolve({ provider: 'embedded' }, variables)).toEqual({ kind: 'embedded', model: 'nano-base' });
    expect(await resolve({ provider: 'embedded', model: 'some/dir' }, variables)).toEqual({ kind: 'embedded', model: 'some/dir' });
  });

  it('plays the baseline where nothing names a policy, and says that it was not asked for', async () => {
    expect(await resolve({})).toEqual({ kind: 'baseline', asked: false });
    expect(await resolve({ provider: 'baseline' }, { VF_BASE_URL: 'http://h/v1' })).toEqual({ kind: 'baseline', asked: true });
  });

  it('needs no key for a server on this machine', async () => {
    expect(await resolve({ provider: 'vllm', model: 'M' })).toMatchObject({
      baseUrls: ['http://localhost:8000/v1'],
      apiKey: null,
      model: 'M',
      chosenBy: '-p vllm',
    });
    expect(await resolve({ provider: 'local' }, { VLLM_API_KEY: 'k1' })).toMatchObject({ apiKey: 'k1', model: null });
  });

  it('takes the key that the provider names, -k before it', async () => {
    expect(await resolve({ provider: 'openai', model: 'M' }, { OPENAI_API_KEY: 'k1' })).toMatchObject({
      apiKey: 'k1',
      baseUrls: ['https://api.openai.com/v1'],
    });
    const settings = { provider: 'openai', model: 'M', apiKeyVar: 'MINE' };
    expect(await resolve(settings, { OPENAI_API_KEY: 'k1', MINE: 'k2' })).toMatchObject({ apiKey: 'k2' });
  });

  it('lets -b win over -p, an alias over the variables', async () => {
    const variables = { VF_BASE_URL: 'http://v/v1', VF_API_KEY: 'vk', VF_MODEL: 'vm' };
    expect(await resolve({ apiBaseUrl: 'http://b/v1', provider: 'vllm', model: 'twins' }, variables)).toMatchObject({
      baseUrls: ['http://b/v1'],
      model: 'twins',
    });
    expect(await resolve({ model: 'twins' }, variables)).toMatchObject({ alias: 'twins', model: 'org/model' });
    expect(await resolve({ model: 'other' }, variables)).toMatchObject({ baseUrls: ['http://v/v1'], model: 'other', apiKey: 'vk' });
    expect(await resolve({}, variables)).toMatchObject({ baseUrls: ['http://v/v1'], model: 'vm', chosenBy: 'VF_BASE_URL' });
  });

  it('makes replicas of a repeated alias, with every spelling of its keys', async () => {
    expect(await resolve({ model: 'twins', header: { 'X-More': 'b' } })).toMatchObject({
      baseUrls: ['http://127.0.0.1:1/v1', 'http://127.0.0.1:2/v1'],
      apiKey: null,
      clientType: 'tokens',
      headers: { 'X-Team': 'a', 'X-More': 'b' },
    });
  });

  it('treats an empty variable as none', async () => {
    expect(await resolve({}, { VF_BASE_URL: '', VF_MODEL: '', VF_API_KEY: '' })).toEqual({ kind: 'baseline', asked: false });
  });

  it.each<[Settings, RegExp]>([
    [{ provider: 'opnai' }, /Unknown provider "opnai" \(did you mean openai\?\); known are vllm/],
    [{ provider: 'openai', model: 'M' }, /environment variable OPENAI_API_KEY \(-p openai\) holds no API key/],
    [{ apiBaseUrl: 'http://h/v1', apiKeyVar: 'NOPE' }, /environment variable NOPE \(-k\) holds no API key/],
    [{ apiBaseUrl: 'http://h/v1', apiKeyVar: 'sk-secret' }, /-k must be the name of an environment variable/],
    [{ model: 'nowhere' }, /The model "nowhere" \(-m\) has no server: add -p NAME .* or use an alias from .*\.toml$/],
    [{ model: 'twin' }, /an alias from .* \(did you mean twins\?\)$/],
    [{ model: 'far' }, /FAR_KEY \(alias far in/],
    [{ apiBaseUrl: 'ftp://h', model: 'M' }, /does not begin with http/],
    [{ provider: 'baseline', apiBaseUrl: 'http://h/v1' }, /cannot be combined\. Leave one out/],
    [{ provider: 'embedded', apiBaseUrl: 'http://h/v1' }, /-b cannot be combined with -p embedded/],
    [{ provider: 'embeded' }, /did you mean embedded\?/],
    [{ apiClientType: 'renderer', provider: 'vllm' }, /^--api-client-type must be one of auto, tokens, chat/],
    [{ header: { A: 'b' } }, /--header needs a policy/],
  ])('refuses %j', async (settings, message) => {
    await expect(resolve(settings)).rejects.toThrow(message);
  });

  it.each([
    [
      '[[endpoint]]\nendpoint_id = "a"\nmodel = "m"\nurl = "http://h"\nkey = "sk-secret-1234"',
      /key in \[\[endpoint\]\] 1 of .* must be the name of an environment variable/,
    ],
    ['[[endpoint]]\nendpoint_id = "a"\nmodle = "m"', /Unknown key "modle" .*did you mean model/],
    ['[[endpoint]]\nendpoint_id = "a"\nmodel = "m"', /url in .* must be a string/],
    [
      '[[endpoint]]\nendpoint_id = "a"\nmodel = "m"\nurl = "http://h"\n[[endpoint]]\nendpoint_id = "a"\nmodel = "n"\nurl = "http://h"',
      /same model, because they are replicas/,
    ],
  ])('refuses the registry %j and shows no key', async (registry, message) => {
    const error = (await resolve({ model: 'a' }, {}, registry).catch((e: unknown) => e)) as Error;
    expect(error.message).toMatch(message);
    expect(error.message).not.toContain('sk-secret');
  });

  it('reads the registry of the package where the folder has none', async () => {
    await expect(resolveFlags({ model: 'qwen2.5-3b-i' }, {})).resolves.toMatchObject({
      model: 'Qwen/Qwen2.5-3B-Instruct',
      apiKey: null,
    });
  });
});

function endpointOf(target: PolicyTarget): EndpointTarget {
  if (target.kind !== 'endpoint') throw new Error(`got ${target.kind}`);
  return target;
}

describe('resolvePolicyTarget for callers in code', () => {
  const inCode = (spec: PolicySpec, variables: Record<string, string> = {}) =>
    resolvePolicyTarget(spec, { variables, names: PROPERTY_NAMES, bundledModel });

  it('takes the key itself and a price, and calls settings by their properties', async () => {
    const price = { input: 1, cached: 1, output: 2 };
    const target = await inCode({ baseUrl: 'http://h/v1', model: 'm', apiKey: 'sk-1', price });
    expect(target).toMatchObject({ apiKey: 'sk-1', keyVariable: null, price, chosenBy: 'baseUrl' });
    await expect(inCode({ provider: 'embedded', apiKey: 'sk-1' })).rejects.toThrow(/^apiKey cannot be combined with provider: "embedded"/);
    await expect(inCode({ baseUrl: 'http://h/v1', apiKeyVar: 'NOPE' })).rejects.toThrow(/environment variable NOPE \(apiKeyVar\) holds no API key/);
    await expect(inCode({ model: 'nowhere' })).rejects.toThrow(/\(model\) has no server: add provider: "NAME" .* or baseUrl: "URL"/);
  });
});

describe('secretsOf', () => {
  it('knows keys, credentials in URLs and headers, and arguments that look like secrets', async () => {
    const target = await resolve(
      {
        apiBaseUrl: 'http://user:pass%21word@h/v1?api_key=query-key',
        header: { Authorization: 'Bearer abc-token-1', 'X-Mode': 'fast', 'X-Long': 'sixteen-characters' },
      },
      { VF_API_KEY: 'vf-key' },
    );
    const args = {
      serper_api_key: 'serper-1234',
      nested: { hubToken: 'hf_abcdefgh' },
      retriever_url: 'http://u:retriever-pass@r/',
      answer_key: 'short',
      topk: 3,
      name: 'plain text here',
    };
    const written = [
      'vf-key',
      'Bearer abc-token-1',
      'abc-token-1',
      'sixteen-characters',
      'pass!word',
      'query-key',
      'serper-1234',
      'hf_abcdefgh',
      'retriever-pass',
    ];
    const encoded = ['user:pass!word', 'u:retriever-pass'].map((pair) => Buffer.from(pair).toString('base64'));
    expect([...secretsOf({ servers: [endpointOf(target)], settings: [args] })].toSorted()).toEqual([...written, ...encoded].toSorted());
  });

  it('does not take a placeholder for a secret', async () => {
    const target = await resolve({ apiBaseUrl: 'http://h/v1' }, { VF_API_KEY: 'EMPTY' });
    expect([...secretsOf({ servers: [endpointOf(target)], settings: [{}] })]).toEqual([]);
  });
});
