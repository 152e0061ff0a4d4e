/** Adapters, publishers and the server's own figures, for tests over one server with LoRA routes. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PolicyVersions } from '../../../src/clients/policy-versions.ts';
import { Random } from '../../../src/core/random.ts';
import type { AdapterFiles } from '../../../src/trainer/gradient-backend.ts';
import { LoraServerPublisher, type LoraServerOptions } from '../../../src/trainer/publisher/lora-server.ts';
import { VersionNames } from '../../../src/trainer/publisher/served-policy.ts';
import type { LogProbProbe, PublishRequest } from '../../../src/trainer/weight-publisher.ts';
import { NANO_ADAPTER, writeAdapter } from './adapter-files.ts';

export interface TestedServer {
  /** With or without `/v1`. */
  readonly url: string;
  readonly baseModel: string;
}

export const PROBE_IDS = Int32Array.from({ length: 60 }, (_, i) => 300 + ((i * 37) % 900));
export const PROBE_TARGETS = Int32Array.from({ length: 24 }, (_, i) => 3 + 2 * i);
/** Two ways of asking one float32 model agree far better; B of 0.05 moves log-probs by tenths. */
export const PROBE_TOLERANCE = 1e-4;

export class PublisherRun {
  readonly folder = mkdtempSync(join(tmpdir(), 'vf-publisher-'));
  readonly #server: TestedServer;
  readonly #id = crypto.randomUUID().slice(0, 8);
  #count = 0;

  constructor(server: TestedServer) {
    this.#server = server;
  }

  adapter(wish: Parameters<typeof writeAdapter>[1]): AdapterFiles {
    return writeAdapter(join(this.folder, 'adapters', `a${this.#count++}`), wish);
  }

  /** Publishes to this server alone by default; unloads everything it published when disposed. */
  publisher(options: Partial<LoraServerOptions> = {}) {
    const { versions = new PolicyVersions({ version: 0, model: this.#server.baseModel }) } = options;
    const runName = `t${this.#id}-${this.#count++}`;
    const publisher = new LoraServerPublisher({
      baseUrls: [this.#server.url],
      baseModel: this.#server.baseModel,
      versions,
      adapter: NANO_ADAPTER,
      adaptersDirectory: join(this.folder, 'adapters'),
      serverAdaptersDirectory: null,
      loadTimeoutMs: 120_000,
      logProbsMode: 'raw',
      random: Random.fromSeed(1),
      ...options,
    });
    const dispose = async () => {
      await publisher.close();
      for (const name of await this.modelsOf(runName)) await this.post('/v1/unload_lora_adapter', { lora_name: name });
    };
    const names = new VersionNames(runName);
    const publish = (request: Omit<PublishRequest, 'name'>, signal: AbortSignal) =>
      publisher.publish({ ...request, name: names.next(request.version) }, signal);
    return { publisher, publish, versions, runName, [Symbol.asyncDispose]: dispose };
  }

  /** The server's log-probs of a model that it has, obtained in another way than the publisher's. */
  async probe(model: string): Promise<LogProbProbe> {
    const { text } = await this.post('/v1/completions', { model, prompt: [...PROBE_IDS], max_tokens: 1, temperature: 0, prompt_logprobs: 0 });
    const judged = (JSON.parse(text) as { choices: [{ prompt_logprobs: (Record<string, { logprob: number }> | null)[] }] }).choices[0]
      .prompt_logprobs;
    const logProbs = Float32Array.from(PROBE_TARGETS, (target) => judged[target]![String(PROBE_IDS[target])]!.logprob);
    return { ids: PROBE_IDS, targets: PROBE_TARGETS, logProbs, tolerance: PROBE_TOLERANCE };
  }

  /** Of an adapter, loaded by hand under a name that no publisher knows. */
  async probeOf({ directory }: AdapterFiles): Promise<LogProbProbe> {
    return this.byHand(directory, (name) => this.probe(name));
  }

  /** Acts while the server has an adapter under a name that no publisher knows. */
  async byHand<T>(directory: string, act: (name: string) => Promise<T>): Promise<T> {
    const name = `${this.#id}-by-hand-${this.#count++}`;
    await this.post('/v1/load_lora_adapter', { lora_name: name, lora_path: directory });
    const found = await act(name);
    await this.post('/v1/unload_lora_adapter', { lora_name: name });
    return found;
  }

  /** Adapters with running requests, as of a step that the server takes now. */
  async adaptersInUse(): Promise<readonly string[]> {
    await this.post('/v1/completions', { model: this.#server.baseModel, prompt: [300], max_tokens: 1 });
    const metrics = await (await fetch(`${this.#root}/metrics`, { headers: { connection: 'close' } })).text();
    const samples = [...metrics.matchAll(/^vllm:lora_requests_info\{.*running_lora_adapters="([^"]*)".*\} (\S+)$/gm)];
    const [newest] = samples.toSorted((a, b) => Number(b[2]) - Number(a[2]));
    return newest?.[1]?.split(',') ?? [];
  }

  /** Resolves when the request has failed, which it does when the signal aborts. */
  async generateForever(model: string, signal: AbortSignal): Promise<void> {
    const body = JSON.stringify({ model, prompt: [...PROBE_IDS], max_tokens: 1900, ignore_eos: true });
    const request = fetch(`${this.#root}/v1/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body, signal });
    await request.then(
      () => Promise.reject(new Error('Expected the request to go on until it is aborted')),
      () => {},
    );
  }

  async completionStatus(model: string): Promise<number> {
    return (await this.post('/v1/completions', { model, prompt: [300, 301], max_tokens: 1, logprobs: 0 })).status;
  }

  async modelsOf(runName: string): Promise<string[]> {
    const answer = (await (await fetch(`${this.#root}/v1/models`)).json()) as { data: { id: string }[] };
    return answer.data.map(({ id }) => id).filter((id) => id.startsWith(`${runName}-v`));
  }

  async post(path: string, body: unknown): Promise<{ status: number; text: string }> {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${this.#root}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    return { status: answer.status, text: await answer.text() };
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  get #root(): string {
    return this.#server.url.replace(/\/v1$/, '');
  }
}
