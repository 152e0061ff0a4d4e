/** A running server of the verifiers wire, and a client of it that sees every frame. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decode, encode } from '@msgpack/msgpack';
import { Dealer } from 'zeromq';
import { ScriptedClient, type ScriptedOptions } from '../../../src/clients/scripted.ts';
import type { Environment } from '../../../src/core/environment.ts';
import type { WireDelta, WireRunReply } from '../../../src/schemas/verifiers-wire/episode.ts';
import type { PolicyAddress, ServedPoliciesOptions, ServedPolicy } from '../../../src/server/environment/served-policies.ts';
import { startVerifiersServer, type VerifiersServerOptions } from '../../../src/server/verifiers/start-verifiers-server.ts';
import { servedSampling } from '../../../src/serving/open-served-policy.ts';
import { TalkEnv } from '../environment/environment-client.ts';

export interface Recording {
  readonly request_id: string;
  readonly method: string;
  /** Hexadecimal. */
  readonly payload: string;
  readonly read: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

interface Golden {
  readonly versions: Readonly<Record<string, string>>;
  readonly requests: Readonly<Record<'health' | 'run_eval' | 'run_train' | 'run_slow' | 'cancel', Recording>>;
  readonly delta: Readonly<Record<'open' | 'lists' | 'set', readonly string[]>>;
  /** By record and field, whether it is required. */
  readonly records: Readonly<Record<string, Readonly<Record<string, boolean>>>>;
}

/** What verifiers 0.4.0's client sends and reads. */
export const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../../golden/verifiers-wire/client.json'), 'utf8')) as Golden;

/** Variables that the recorded clients name, although the policy needs no key. */
const NAMED_BY_CLIENTS = ['NO_SUCH_API_KEY', 'VLLM_API_KEY', 'PRIME_API_KEY'];

export const BASE_URL = 'http://127.0.0.1:8000/v1';

export const run = (fields: Readonly<Record<string, unknown>> = {}) => ({
  task_data: { example_id: 'row-1' },
  client: { base_url: BASE_URL, type: 'train', api_key_var: 'NO_SUCH_API_KEY' },
  model: 'policy',
  sampling: { temperature: 1 },
  ...fields,
});

interface Reply {
  readonly success: boolean;
  readonly error: string | null;
  readonly [field: string]: unknown;
}

export interface Answered {
  readonly deltas: readonly WireDelta[];
  readonly reply: Reply & Partial<Pick<WireRunReply, 'head' | 'traces'>>;
}

/** A DEALER socket, which tells answers apart by their request ids. */
export class WireClient implements AsyncDisposable {
  readonly #socket: Dealer;
  readonly #waiting = new Map<string, { readonly deltas: WireDelta[]; readonly resolve: (answered: Answered) => void }>();
  readonly #receiving: Promise<void>;
  #sending: Promise<void> = Promise.resolve();
  #count = 0;

  constructor(address: string) {
    this.#socket = new Dealer({ linger: 0 });
    this.#socket.connect(address);
    this.#receiving = this.#receive();
  }

  ask(method: string, payload: unknown = {}, id = String(this.#count++)): Promise<Answered> {
    return this.askBytes(method, encode(payload), id);
  }

  askBytes(method: string, payload: Uint8Array, id = String(this.#count++)): Promise<Answered> {
    const answered = new Promise<Answered>((resolve) => this.#waiting.set(id, { deltas: [], resolve }));
    this.send([id, method, payload]);
    return answered;
  }

  /** Frames as they are. */
  send(frames: readonly (string | Uint8Array)[]): void {
    this.#sending = this.#sending.then(() => this.#socket.send(frames as (string | Uint8Array)[]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sending;
    this.#socket.close();
    await this.#receiving;
  }

  async #receive(): Promise<void> {
    for await (const [id, kind, data] of this.#socket as AsyncIterable<Buffer[]>) {
      const waiting = this.#waiting.get(id!.toString());
      if (waiting === undefined) continue;
      const value = decode(data!);
      if (kind!.toString() === 'delta') waiting.deltas.push(value as WireDelta);
      else {
        this.#waiting.delete(id!.toString());
        waiting.resolve({ deltas: waiting.deltas, reply: value as Reply });
      }
    }
  }
}

export interface ServedWire extends AsyncDisposable {
  readonly address: string;
  readonly client: WireClient;
  /** Policies that were opened. */
  readonly opened: readonly PolicyAddress[];
  readonly failures: readonly unknown[];
  readonly close: () => Promise<void>;
}

export interface ServeWireOptions extends Partial<Omit<VerifiersServerOptions, 'policies'>> {
  readonly environment?: Environment;
  /** What the policy says. @default `a;`, `done;` */
  readonly script?: Partial<ScriptedOptions>;
  readonly policies?: Partial<ServedPoliciesOptions>;
}

/** Serves an environment on a free port of loopback. The policy is a script, whatever its address. */
export async function serveWire({ environment = new TalkEnv(), script = {}, policies = {}, ...options }: ServeWireOptions = {}): Promise<ServedWire> {
  const opened: PolicyAddress[] = [];
  const failures: unknown[] = [];
  const open = async (address: PolicyAddress): Promise<ServedPolicy> => {
    opened.push(address);
    const client = new ScriptedClient({ turns: ['a;', 'done;'], name: address.model ?? 'scripted', ...script });
    return { client, models: null, [Symbol.asyncDispose]: () => client.close() };
  };
  const server = await startVerifiersServer({
    environment,
    split: 'eval',
    policies: { open, readSampling: (fields) => servedSampling(fields), allowedKeyVariables: NAMED_BY_CLIENTS, ...policies },
    redact: (text) => text,
    address: 'tcp://127.0.0.1:0',
    variables: {},
    version: '0.0.0',
    onFailure: (error) => failures.push(error),
    ...options,
  });
  const client = new WireClient(server.address);
  return {
    address: server.address,
    client,
    opened,
    failures,
    close: () => server.close(),
    async [Symbol.asyncDispose]() {
      await server.close();
      await client[Symbol.asyncDispose]();
    },
  };
}
