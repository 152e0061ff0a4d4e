/** A caller of the Tinker API over HTTP, in either dialect, and a server of the nano model on loopback. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EmbeddedEngine } from '../../../src/engine/embedded-engine.ts';
import { startTinkerServer, type TinkerServer, type TinkerServerOptions } from '../../../src/server/tinker/start-tinker-server.ts';
import { embeddedCompute } from '../../../src/serving/tinker/embedded-compute.ts';
import { passRequest } from '../../../src/tinker/wire/json-pass.ts';
import { decodeOutput, encodePass } from '../../../src/tinker/wire/protobuf-pass.ts';
import { decodeSamples } from '../../../src/tinker/wire/samples.ts';
import { type TrainingDatum, textDatum } from '../../../src/tinker/wire/training-pass.ts';
import { floatRow, tokenRow } from '../../../src/tinker/wire/wire-tensor.ts';

const NANO = join(import.meta.dirname, '../../../models/nano-base');

export interface Served {
  readonly server: TinkerServer;
  readonly engine: EmbeddedEngine;
  readonly failures: unknown[];
}

/** The nano model on two threads. `state`: a folder that an earlier server used. */
export async function serveNano(options: Partial<TinkerServerOptions> = {}): Promise<Served> {
  const engine = await EmbeddedEngine.open({ modelPath: NANO, threads: 2, signal: new AbortController().signal });
  const failures: unknown[] = [];
  const server = await startTinkerServer({
    compute: embeddedCompute(engine),
    baseNames: ['nano-base'],
    state: mkdtempSync(join(tmpdir(), 'vf-tinker-state-')),
    apiKey: null,
    onFailure: (error) => failures.push(error),
    ...options,
  });
  return { server, engine, failures };
}

type Json = Record<string, never>;

export class Caller {
  readonly url: string;
  readonly #headers: Readonly<Record<string, string>>;
  #seq = 0;

  constructor(url: string, headers: Readonly<Record<string, string>> = {}) {
    this.url = url;
    this.#headers = headers;
  }

  post(path: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    const all = { 'content-type': 'application/json', ...this.#headers, ...headers };
    return fetch(`${this.url}/api/v1/${path}`, { method: 'POST', headers: all, body: JSON.stringify(body), redirect: 'manual' });
  }

  get(path: string): Promise<Response> {
    return fetch(`${this.url}/api/v1/${path}`, { headers: this.#headers, redirect: 'manual' });
  }

  /** The answer of a route, which must be 200. */
  async ask<T = Json>(path: string, body: object): Promise<T> {
    const response = await this.post(path, body);
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${path} answered ${response.status}: ${text}`);
    return JSON.parse(text) as T;
  }

  /** The result behind an id, in JSON. */
  result<T = Json>(id: string): Promise<T> {
    return this.ask<T>('retrieve_future', { request_id: id });
  }

  async resultOf<T = Json>(path: string, body: object): Promise<T> {
    return this.result<T>((await this.ask<{ request_id: string }>(path, body)).request_id);
  }

  /** A model in a session of its own. */
  async model(lora: object = { rank: 4, seed: 7, train_unembed: false }): Promise<string> {
    const { session_id: session } = await this.ask<{ session_id: string }>('create_session', {});
    const made = await this.resultOf<{ model_id: string }>('create_model', {
      session_id: session,
      model_seq_id: 0,
      base_model: 'nano-base',
      lora_config: lora,
    });
    if (made.model_id === undefined) throw new Error(JSON.stringify(made));
    this.#seq = 0;
    return made.model_id;
  }

  /** The next number of the model's requests. */
  next(): number {
    return ++this.#seq;
  }

  /** A pass in JSON, read in JSON. */
  async pass(modelId: string, data: readonly TrainingDatum[], { loss = 'cross_entropy', isForwardOnly = false } = {}): Promise<PassJson> {
    const { route, body } = passRequest({ modelId, seqId: this.next(), lossFn: loss, lossConfig: {}, isForwardOnly, data });
    return this.resultOf<PassJson>(route, body);
  }

  /** A pass in protobuf, read in protobuf. */
  async protobufPass(modelId: string, data: readonly TrainingDatum[], { isForwardOnly = false } = {}) {
    const bytes = encodePass({ modelId, seqId: this.next(), lossFn: 'cross_entropy', lossConfig: {}, isForwardOnly, data });
    const headers = { 'content-type': 'application/x-protobuf', ...this.#headers };
    const response = await fetch(`${this.url}/api/v1/forward_backward`, { method: 'POST', headers, body: bytes as Uint8Array<ArrayBuffer> });
    const { request_id: id } = (await response.json()) as { request_id: string };
    return decodeOutput(await this.#bytes(id));
  }

  async samples(body: object) {
    const { request_id: id } = await this.ask<{ request_id: string }>('asample', body);
    return decodeSamples(await this.#bytes(id));
  }

  step(modelId: string, rate = 3e-3): Promise<{ metrics?: Record<string, number>; error?: string }> {
    return this.resultOf('optim_step', { model_id: modelId, seq_id: this.next(), adam_params: { learning_rate: rate } });
  }

  async #bytes(id: string): Promise<Uint8Array> {
    const response = await this.post('retrieve_future', { request_id: id }, { accept: 'application/x-protobuf, application/json' });
    const type = response.headers.get('content-type');
    if (type !== 'application/x-protobuf') throw new Error(`${type}: ${await response.text()}`);
    return new Uint8Array(await response.arrayBuffer());
  }
}

export interface PassJson {
  readonly loss_fn_outputs: readonly {
    readonly logprobs: { readonly data: readonly number[] };
    readonly elementwise_loss: { readonly data: readonly number[] };
  }[];
  readonly metrics: Readonly<Record<string, number>>;
  readonly error?: string;
  readonly category?: string;
}

/** Teaches every token after the first. */
export function taught(ids: readonly number[]): TrainingDatum {
  const targets = Int32Array.from(ids.slice(1));
  return textDatum(Int32Array.from(ids.slice(0, -1)), {
    target_tokens: tokenRow(targets),
    weights: floatRow(new Float32Array(targets.length).fill(1)),
  });
}

export function logProbsOf({ loss_fn_outputs: outputs }: PassJson): number[] {
  return outputs.flatMap(({ logprobs }) => [...logprobs.data]);
}
