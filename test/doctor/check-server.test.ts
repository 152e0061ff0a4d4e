import { describe, expect, it } from 'vitest';
import { checkServer } from '../../src/doctor/check-server.ts';
import type { DoctorTarget } from '../../src/doctor/doctor-target.ts';
import { imageServer, type ImageServerOptions } from '../loopback/image-server.ts';
import { someConfig } from '../trainer/some-config.ts';
import { loopback } from '../transport/loopback.ts';

const target: DoctorTarget = {
  config: null,
  needsTorch: false,
  python: 'python3',
  serverPython: null,
  baseUrls: [],
  apiKey: undefined,
  keyVariable: null,
  loraRank: 8,
  maxStaleness: 0,
  temperature: 1,
  outputDir: '.',
  secrets: new Set(),
};

async function imageFinding(options: ImageServerOptions, needs: readonly 'images'[] = ['images']) {
  await using server = await imageServer(options);
  const { signal } = new AbortController();
  const played = { id: 'gallery', turnFormat: 'chat', needs } as const;
  const common = { target, contextTokens: null, modelWindow: null, gpuShare: null, signal };
  const { findings } = await checkServer({ ...common, baseUrl: `${server.url}/v1`, played });
  return findings.find(({ name }) => name === 'images');
}

describe('checkServer', () => {
  it('says how the server sees images where the environment shows some', async () => {
    expect(await imageFinding({})).toEqual({
      name: 'images',
      state: 'ok',
      text: '4,096 to 1,048,576 pixels, 32 × 32 a token, at most 16 in a prompt',
    });
    expect(await imageFinding({}, [])).toBeUndefined();
  });

  it('says at once that a server refuses connections', async () => {
    const { signal } = new AbortController();
    const common = { target, contextTokens: null, modelWindow: null, gpuShare: null, played: null, signal };
    const { findings } = await checkServer({ ...common, baseUrl: 'http://127.0.0.1:1/v1' });
    const [finding] = findings;
    expect(finding).toMatchObject({ state: 'missing', text: expect.stringMatching(/did not answer: connect ECONNREFUSED 127\.0\.0\.1:1/) });
    expect(finding!.text).not.toMatch(/within/);
  });

  it.each([
    [401, '{"error":"Unauthorized"}', /^name the variable that holds the API key/],
    [500, '{"error":{"message":"The licence server rejected the API key of this host"}}', /^see the server.s log$/],
  ])('names the key as the remedy of %i only where the server refused it', async (status, body, remedy) => {
    await using refusing = await loopback((_, response) => response.writeHead(status, { 'content-type': 'application/json' }).end(body));
    const { signal } = new AbortController();
    const { findings } = await checkServer({
      target,
      contextTokens: null,
      modelWindow: null,
      gpuShare: null,
      played: null,
      signal,
      baseUrl: refusing.url,
    });
    expect(findings[0]?.remedy).toMatch(remedy);
  });

  it('names the route that is missing, and a command with its flag', async () => {
    const finding = await imageFinding({ hasRoute: false });
    expect(finding).toMatchObject({
      state: 'missing',
      text: expect.stringMatching(/^the environment shows images, but the server has no route .*--enable-scale-out/),
    });
    expect(finding!.remedy).toMatch(/vllm serve .*--enable-scale-out .*--limit-mm-per-prompt/);
  });

  it('prints a command whose server changes its weights during a generation where the run asks for it', async () => {
    await using server = await imageServer({});
    const { signal } = new AbortController();
    const config = someConfig({ publish: { in_flight: true }, rollouts: { max_staleness: 1 } });
    const common = { contextTokens: null, modelWindow: null, gpuShare: null, played: null, signal };
    const remedies = async (change: Partial<DoctorTarget>) => {
      const { findings } = await checkServer({ ...common, target: { ...target, ...change }, baseUrl: `${server.url}/v1` });
      return findings.find(({ name }) => name === 'adapters')?.remedy;
    };
    expect(await remedies({ config })).toMatch(/VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 VLLM_SERVER_DEV_MODE=1 vllm serve .*--enable-scale-out/);
    expect(await remedies({})).not.toMatch(/DEV_MODE|scale-out/);
  });

  it('says that the model reads text only', async () => {
    expect(await imageFinding({ sees: false })).toMatchObject({ state: 'missing', text: expect.stringMatching(/but the server takes no images/) });
  });

  it('warns of a limit that a short episode reaches', async () => {
    expect(await imageFinding({ limit: 2 })).toMatchObject({
      state: 'warning',
      text: expect.stringMatching(/at most 2 in a prompt: a rollout that shows more fails$/),
    });
  });
});
