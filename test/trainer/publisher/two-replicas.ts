/** A trainer's view of two replicas: publisher, keeper and client over servers that can be killed, and a backend that agrees with them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PolicyVersions } from '../../../src/clients/policy-versions.ts';
import { VllmTokensClient } from '../../../src/clients/vllm-tokens.ts';
import { Random } from '../../../src/core/random.ts';
import { RemoteServers } from '../../../src/launch/remote-servers.ts';
import type { AdapterFiles, ForwardOptions, ForwardResult, PackedBatch } from '../../../src/trainer/gradient-backend.ts';
import type { TrainingEvent } from '../../../src/trainer/training-observer.ts';
import { LoraServerPublisher, type LoraServerOptions } from '../../../src/trainer/publisher/lora-server.ts';
import { ServedPolicy, VersionNames } from '../../../src/trainer/publisher/served-policy.ts';
import { logProb, readWeights } from '../../loopback/lora-server.ts';
import { MortalReplica } from '../../loopback/mortal-replica.ts';
import { StillBackend } from '../still-backend.ts';
import { NANO_ADAPTER, writeAdapter } from './adapter-files.ts';

export const TEXT = {
  ids: Int32Array.from({ length: 60 }, (_, i) => 300 + ((i * 37) % 900)),
  targets: Int32Array.from({ length: 50 }, (_, i) => i + 5),
};

/** Every saved adapter has other weights; log-probs are those of the loopback servers. */
class HashBackend extends StillBackend {
  #fingerprint = '';
  #saves = 0;

  override async saveAdapter(directory: string): Promise<AdapterFiles> {
    const manifest = writeAdapter(directory, { b: 0.05, seed: ++this.#saves });
    this.#fingerprint = readWeights(join(directory, 'adapter_model.safetensors')).fingerprint;
    return manifest;
  }

  override async forward({ ids, targets }: PackedBatch, { adapter }: ForwardOptions): Promise<ForwardResult> {
    const fingerprint = adapter === 'on' ? this.#fingerprint : '';
    const logProbs = Float32Array.from(targets, (target) => logProb(fingerprint, [...ids.subarray(0, target)], ids[target]!));
    return { batchId: '', logProbs };
  }
}

export interface TwoReplicas extends AsyncDisposable {
  readonly replicas: readonly [MortalReplica, MortalReplica];
  readonly policy: ServedPolicy;
  readonly versions: PolicyVersions;
  readonly client: VllmTokensClient;
  readonly publisher: LoraServerPublisher;
  readonly reported: Omit<TrainingEvent, 'step'>[];
  readonly signal: AbortSignal;
  /** Folder of the adapters. */
  readonly folder: string;
  /** Samples one token; the replicas' `completions` say where. */
  sample(): Promise<string>;
}

interface TwoReplicasOptions extends Partial<LoraServerOptions> {
  readonly patienceMs?: number;
}

export async function twoReplicas({ quorum = 1, patienceMs, ...options }: TwoReplicasOptions = {}): Promise<TwoReplicas> {
  const folder = mkdtempSync(join(tmpdir(), 'vf-replicas-'));
  const replicas = [await MortalReplica.start(), await MortalReplica.start()] as const;
  const baseUrls = replicas.map(({ url }) => `${url}/v1`);
  const stop = new AbortController();
  const { signal } = stop;
  const versions = new PolicyVersions({ version: 0, model: 'nano-base' });
  const reported: Omit<TrainingEvent, 'step'>[] = [];
  const client = new VllmTokensClient({
    baseUrls,
    versions,
    capabilities: { maxModelLen: 2048, tokenizerHash: null, logProbsMode: 'raw' },
    maxRetries: 1,
    baseDelayMs: 1,
  });
  const publisher = new LoraServerPublisher({
    baseUrls,
    baseModel: 'nano-base',
    versions,
    adapter: NANO_ADAPTER,
    adaptersDirectory: folder,
    serverAdaptersDirectory: null,
    loadTimeoutMs: 20_000,
    quorum,
    maxRetries: 0,
    logProbsMode: 'raw',
    random: Random.fromSeed(1),
    ...options,
  });
  const servers = new RemoteServers({ baseUrls, deadlineMs: 20_000 });
  const policy = new ServedPolicy({
    backend: new HashBackend(),
    versions,
    publisher,
    servers,
    names: new VersionNames('run'),
    adaptersDirectory: folder,
    hasInitialAdapter: false,
    tolerance: null,
    maxStaleness: 0,
    quorum,
    ...(patienceMs === undefined ? {} : { patienceMs }),
    report: (event) => reported.push(event),
    signal,
  });
  const sample = async () => {
    await using lease = await client.lease(signal);
    const request = { prompt: Int32Array.of(7, 8), sampling: { temperature: 1, topP: 1 }, maxNewTokens: 1, stop: [], signal };
    await lease.generate(request);
    return lease.policy.model;
  };
  return {
    replicas,
    policy,
    versions,
    client,
    publisher,
    reported,
    signal,
    folder,
    sample,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await policy.settled();
      await Promise.all([client.close(), publisher.close(), servers[Symbol.asyncDispose]()]);
      for (const replica of replicas) await replica[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Models of the completions that a replica got, each once. */
export function modelsAsked({ completions }: MortalReplica): string[] {
  return [...new Set(completions.map((body) => (JSON.parse(body) as { model: string }).model))];
}
