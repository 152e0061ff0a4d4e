/** A real vLLM changes its weights while it generates: every token has the version that sampled it, and the log-prob that the trainer computes under that version. */
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TokenSample } from '../../src/clients/policy-client.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { VllmTokensClient } from '../../src/clients/vllm-tokens.ts';
import { checkServer } from '../../src/doctor/check-server.ts';
import { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import { assertChangesInFlight } from '../../src/sessions/training/check-policy-server.ts';
import { unpackInt32 } from '../../src/schemas/packed-array.ts';
import type { AdapterManifest } from '../../src/trainer/gradient-backend.ts';
import { EmbeddedBackend } from '../../src/trainer/gradients/embedded/embedded-backend.ts';
import { microBatchOf } from '../../src/trainer/gradients/pack-batches.ts';
import type { LogProbProbe } from '../../src/trainer/weight-publisher.ts';
import { NANO_BASE } from '../trainer/gradients/torch/torch-python.ts';
import { PublisherRun } from '../trainer/publisher/publisher-run.ts';
import { someConfig } from '../trainer/some-config.ts';
import { until } from '../transport/loopback.ts';
import { type ServedModel, serveNano, serveUnlessGiven } from './serve.ts';
import { finished, TrainFolder } from './train-process.ts';

const { signal } = new AbortController();
const TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
const PROMPT = Int32Array.from({ length: 20 }, (_, i) => 300 + ((i * 37) % 900));
const LONG = 1500;
const CAPABILITIES = { maxModelLen: 2048, tokenizerHash: null, logProbsMode: 'raw', chatTemplate: 'chatml' } as const;
/** Version 0 does nothing; the others change the model, each in another way. */
const WISHES = [{ b: 0 }, { b: 0.05, seed: 2 }, { b: 0.05, seed: 3 }] as const;

const TARGET = {
  needsTorch: false,
  python: 'python3',
  serverPython: null,
  baseUrls: [],
  apiKey: undefined,
  keyVariable: null,
  loraRank: 8,
  maxStaleness: 2,
  temperature: 1,
  outputDir: '.',
  secrets: new Set<string>(),
};

let server: ServedModel;
let run: PublisherRun;
let engine: EmbeddedEngine;
beforeAll(async () => {
  const flags = ['--enable-scale-out', '--max-loras', '4', '--max-cpu-loras', '8'];
  server = await serveUnlessGiven('VLLM_IN_FLIGHT_BASE_URL', () => serveNano({ VF_VLLM_LORA: '1' }, flags));
  run = new PublisherRun({ url: server.url, baseModel: 'nano-base' });
  engine = await EmbeddedEngine.open({ modelPath: NANO_BASE, threads: 1, signal });
});
afterAll(async () => {
  run?.[Symbol.dispose]();
  await engine?.close();
  await server?.[Symbol.asyncDispose]();
});

/** Publishes version after version, whose probes were made beforehand: this build crashes when asked for them during a generation. */
async function policy() {
  const manifests = WISHES.map((wish) => run.adapter(wish));
  const probes: LogProbProbe[] = [];
  for (const manifest of manifests) probes.push(await run.probeOf(manifest));
  const versions = new PolicyVersions({ version: 0, model: 'nano-base' }, { isInFlight: true });
  const opened = run.publisher({ versions });
  const client = new VllmTokensClient({ baseUrls: [server.url], versions, capabilities: CAPABILITIES });
  const publish = async (version: 0 | 1 | 2) => {
    const result = await opened.publish({ version, manifest: manifests[version]!, probe: probes[version]! }, signal);
    if (!result.ok) throw result.reason;
    return result.ref.model;
  };
  const generate = async (maxNewTokens: number): Promise<TokenSample> => {
    await using lease = await client.lease(signal);
    const sampling = { temperature: 1, topP: 1, extra: { ignore_eos: true } };
    return await lease.generate({ prompt: PROMPT, sampling, maxNewTokens, stop: [], signal });
  };
  const dispose = async () => {
    await client.close();
    await opened[Symbol.asyncDispose]();
  };
  return { ...opened, publish, generate, manifests, [Symbol.asyncDispose]: dispose };
}

/** The trainer's log-probs of the sampled tokens under weights like those of a version; its own file may hold newer ones by now. */
async function trained(version: number, { ids }: TokenSample): Promise<Float32Array> {
  const { directory }: AdapterManifest = run.adapter(WISHES[version]);
  const adapter = { rank: 4, alpha: 8, targets: TARGETS, seed: 1, initial: directory };
  const backend = await EmbeddedBackend.on(engine, { adapter, signal });
  try {
    const whole = Int32Array.from([...PROMPT, ...ids]);
    const targets = Int32Array.from(ids, (_, i) => PROMPT.length + i);
    const { batch } = microBatchOf([{ ids: whole, targets }], [0], 1);
    return (await backend.forward(batch, { retain: false, adapter: 'on', signal })).logProbs;
  } finally {
    await backend.close();
  }
}

function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>, from: number, to: number): number {
  return Math.max(...Array.from({ length: to - from }, (_, i) => Math.abs(a[from + i]! - b[from + i]!)));
}

describe('LoraServerPublisher in flight, on a real vLLM', () => {
  it('finds that the server can change weights during a generation', async () => {
    await expect(assertChangesInFlight({ baseUrls: [server.url], apiKey: null }, signal)).resolves.toBeUndefined();
    const config = someConfig({ publish: { in_flight: true }, rollouts: { max_staleness: 2 } });
    const common = { contextTokens: null, modelWindow: null, gpuShare: null, played: null, signal };
    const { findings } = await checkServer({ ...common, target: { ...TARGET, config }, baseUrl: server.url });
    expect(findings.filter(({ state }) => state !== 'ok')).toEqual([]);
    expect(findings.map(({ name }) => name)).toContain('in flight');
  });

  it('gives the weights of each version to a generation under way, and each token its version and the log-prob of that version', async () => {
    await using opened = await policy();
    const first = await opened.publish(0);
    const long = opened.generate(LONG);
    await until(async () => (await run.adaptersInUse()).includes(first));
    await opened.publish(1);
    await until(async () => (await run.adaptersInUse()).includes(first));
    const last = await opened.publish(2);
    // A generation that begins now has the new weights from its first token.
    expect((await opened.generate(4)).versions).toEqual([{ version: 2, tokens: 4 }]);
    const sample = await long;
    expect(sample.versions!.map(({ version }) => version)).toEqual([0, 1, 2]);
    let from = 0;
    for (const { version, tokens } of sample.versions!) {
      const to = from + tokens;
      const own = await trained(version, sample);
      expect(largestDifference(sample.logProbs, own, from, to)).toBeLessThan(1e-3);
      // The neighbours' weights would give other log-probs, so the spans end where they say: nothing computed under old weights is in use after a switch.
      const other = await trained((version + 1) % WISHES.length, sample);
      expect(largestDifference(sample.logProbs, other, from, to)).toBeGreaterThan(1e-2);
      from = to;
    }
    expect(from).toBe(LONG);
    await opened.publisher.retire(2, signal);
    expect(await run.modelsOf(opened.runName)).toEqual([last]);
  });

  it('keeps the old version where the new weights cannot be loaded, and the server goes on', async () => {
    await using opened = await policy();
    const first = await opened.publish(0);
    rmSync(opened.manifests[1]!.directory, { recursive: true });
    await expect(opened.publish(1)).rejects.toThrow(/Version 1 was not published.*Version 0 .*continues to serve/);
    expect(opened.versions.current().model).toBe(first);
    expect((await opened.generate(4)).versions).toEqual([{ version: 0, tokens: 4 }]);
  });

  it('goes on after a switch that ended with its process', async () => {
    await using opened = await policy();
    await opened.publish(0);
    expect((await run.post('/pause?mode=keep', {})).status).toBe(200);
    await opened.publisher.clear(signal);
    const answer = (await (await fetch(server.url.replace('/v1', '/is_paused'))).json()) as { is_paused: boolean };
    expect(answer.is_paused).toBe(false);
  });
});

describe('vf-train with publish.in_flight, on a real vLLM', () => {
  it('trains to the last step, and every version of a token is one that was published', async () => {
    using folder = new TrainFolder();
    const settings = { 'publish.in_flight': true, 'rollouts.max_staleness': 2, 'evaluation.every': 0, steps: 6 };
    const process = folder.begin(['-b', server.url, ...Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${value}`])]);
    try {
      const summary = await finished<{ readonly reason: string; readonly version: number }>(process);
      expect(summary).toMatchObject({ reason: 'finished', version: 6 });
    } finally {
      await process.kill();
    }
    const rows = folder.run()!.rows('step');
    expect(rows.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6]);
    for (const { step, rollouts_mixed: mixed = 0 } of rows) {
      const lines = folder.run()!.rollouts(step!);
      const versions = lines.flatMap((line) => ('versions' in line ? [[...(unpackInt32(line.versions as string) ?? [])]] : []));
      // Every rollout on file is trained, unless it grew too old.
      expect(versions.length).toBeGreaterThanOrEqual(mixed!);
      expect(versions.flat().every((version) => version >= 0 && version < step!)).toBe(true);
    }
    expect(Math.max(...rows.map((row) => row['log_prob_difference_mean'] ?? 0))).toBeLessThanOrEqual(1e-4);
    expect(rows.reduce((sum, { rollouts_mixed: mixed = 0 }) => sum + mixed!, 0)).toBeGreaterThan(0);
  });
});
