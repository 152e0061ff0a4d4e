import { describe, expect, it } from 'vitest';
import type { PolicyProbe } from '../../../src/clients/vllm-probe.ts';
import { assertChangesInFlight, assertTakesAdapters, checkPolicyProbe } from '../../../src/sessions/training/check-policy-server.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { loopback, readText, sendJson } from '../../transport/loopback.ts';

const PROBE: PolicyProbe = {
  kind: 'tokens',
  model: 'nano-base',
  maxModelLen: 2048,
  tokenizerHash: null,
  logProbsMode: 'raw',
  hasChatTemplate: false,
  chatOnlyBecause: null,
};
const failure = (probe: Partial<PolicyProbe>, temperature: number) => {
  try {
    checkPolicyProbe({ ...PROBE, ...probe }, temperature);
    return null;
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
};

describe('checkPolicyProbe', () => {
  it('accepts raw log-probs only at temperature 1, and processed ones at any', () => {
    expect([failure({}, 1), failure({ logProbsMode: 'processed' }, 0.7)]).toEqual([null, null]);
    expect(failure({}, 0.7)).toMatch(/temperature is 0\.7.*--logprobs-mode processed_logprobs/);
  });

  it('accepts no server without token ids', () => {
    expect(failure({ kind: 'chat', chatOnlyBecause: 'it has no /tokenize' }, 1)).toMatch(/token ids.*it has no \/tokenize/);
  });
});

describe('assertTakesAdapters', () => {
  const signal = new AbortController().signal;
  /** The answers of vLLM 0.32.0 to a load, measured: with its routes and LoRA, with its routes alone, and without them. */
  const vllm = (lora: 'on' | 'routes only' | 'off') =>
    loopback(async (request, response) => {
      if (lora === 'off' || request.url !== '/v1/load_lora_adapter') return sendJson(response, 404, { detail: 'Not Found' });
      const { lora_path: path } = JSON.parse(await readText(request)) as { readonly lora_path?: string };
      if (path === undefined) return sendJson(response, 400, { error: { message: 'Field required' } });
      if (lora === 'on') return sendJson(response, 404, { error: { message: `No adapter found for ${path}` } });
      sendJson(response, 400, { error: { message: 'Call to add_lora method failed: LoRA is not enabled. Use --enable-lora to enable LoRA.' } });
    });

  it('accepts servers that load adapters', async () => {
    await using server = await vllm('on');
    await expect(assertTakesAdapters({ baseUrls: [server.url, `${server.url}/v1/`], apiKey: null }, signal)).resolves.toBeUndefined();
  });

  it.each([
    ['off', 'VLLM_ALLOW_RUNTIME_LORA_UPDATING=1'],
    ['routes only', '--enable-lora'],
  ] as const)('refuses a replica that would serve the base alone (%s), and names what its start lacks', async (lora, lack) => {
    await using good = await vllm('on');
    await using bad = await vllm(lora);
    const refusal = assertTakesAdapters({ baseUrls: [good.url, bad.url], apiKey: null }, signal);
    await expect(refusal).rejects.toThrow(ConfigError);
    await expect(refusal).rejects.toThrow(`${bad.url} cannot load adapters, because it was started without ${lack}`);
  });
});

describe('assertChangesInFlight', () => {
  const signal = new AbortController().signal;
  const ROUTES = { 'GET /is_paused': 200, 'GET /weight_info': 200, 'POST /inference/v1/generate': 422 };
  const serving = (statuses: Readonly<Record<string, number>>) =>
    loopback((request, response) => sendJson(response, statuses[`${request.method} ${request.url}`] ?? 404, { detail: 'x' }));

  it('accepts a server with the routes that pause it, label its weights and say which sampled what', async () => {
    await using server = await serving(ROUTES);
    await expect(assertChangesInFlight({ baseUrls: [`${server.url}/v1`], apiKey: null }, signal)).resolves.toBeUndefined();
  });

  it.each([
    ['GET /is_paused', 404, /no route \/is_paused: start vLLM 0.32 or later with VLLM_SERVER_DEV_MODE=1/],
    ['GET /weight_info', 404, /no route \/weight_info: use vLLM 0.32 or later/],
    ['POST /inference/v1/generate', 403, /answers 403 .* with --enable-scale-out/],
    ['POST /inference/v1/generate', 404, /answers 404 .* with --enable-scale-out/],
  ])('refuses a server that answers %s with %i, and says what its start lacks', async (route, status, message) => {
    await using server = await serving({ ...ROUTES, [route]: status });
    const refusal = assertChangesInFlight({ baseUrls: [server.url], apiKey: null }, signal);
    await expect(refusal).rejects.toThrow(message);
    await expect(refusal).rejects.toBeInstanceOf(ConfigError);
  });
});
