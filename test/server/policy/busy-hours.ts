/**
 * Many clients at once, some leaving midway, while adapters come and go: every answer that arrives is compared with the one that a quiet server
 * gave to the same request.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../../../src/core/random.ts';
import { writeAdapter } from '../../trainer/publisher/adapter-files.ts';
import { eventsOf, JSON_TYPE } from './nano-server.ts';

interface Spec {
  /** Index into the adapters, or null for the base. */
  readonly adapter: number | null;
  readonly isStreamed: boolean;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface BusyOptions {
  readonly url: string;
  /** Adapters are written here. */
  readonly folder: string;
  readonly baseModel: string;
  readonly clients: number;
  /** The number of requests that all clients together start. */
  readonly requests: number;
  readonly seed: number;
}

export interface BusyReport {
  /** Begun, answered in full, left by their client, and refused because the server was full. */
  readonly begun: number;
  readonly answered: number;
  readonly left: number;
  readonly busy: number;
  /** Adapters that were loaded and unloaded meanwhile. */
  readonly loads: number;
  /** Answers that differ from those of the quiet server, or are missing. */
  readonly wrong: readonly string[];
}

const SPECS = 48;
const SHARE_THAT_LEAVES = 0.3;
const ADAPTERS = 2;

export class BusyHours {
  readonly #options: BusyOptions;
  readonly #specs: readonly Spec[];
  readonly #expected: string[] = [];
  readonly #random: Random;

  constructor(options: BusyOptions) {
    this.#options = options;
    this.#random = Random.fromSeed(options.seed);
    for (let i = 0; i < ADAPTERS; i++) writeAdapter(this.#directory(i), { b: 0.05, seed: 10 + i });
    this.#specs = Array.from({ length: SPECS }, (_, i) => randomSpec(this.#random.fork(i)));
  }

  /** One request at a time, before anything else is asked. */
  async prepare(): Promise<void> {
    for (let i = 0; i < ADAPTERS; i++) await this.#post('/v1/load_lora_adapter', { lora_name: `steady-${i}`, lora_path: this.#directory(i) });
    for (const spec of this.#specs) {
      const { status, text } = await this.#ask(spec, this.#steady(spec));
      if (status !== 200) throw new Error(`Expected 200 from a quiet server, got ${status}: ${text}`);
      this.#expected.push(essence(spec, text));
    }
  }

  async run(): Promise<BusyReport> {
    const report = { begun: 0, answered: 0, left: 0, busy: 0, loads: 0, wrong: [] as string[] };
    const client = async (random: Random) => {
      while (report.begun < this.#options.requests) {
        report.begun += 1;
        await this.#askAsClient(random, report);
      }
    };
    const churn = async (random: Random) => {
      while (report.begun < this.#options.requests) await this.#exchangeAdapter(random, report);
    };
    const clients = Array.from({ length: this.#options.clients }, (_, i) => client(this.#random.fork(`client ${i}`)));
    await Promise.all([...clients, churn(this.#random.fork('churn 0')), churn(this.#random.fork('churn 1'))]);
    return report;
  }

  async #askAsClient(random: Random, report: { answered: number; left: number; busy: number; wrong: string[] }): Promise<void> {
    const index = random.integer(SPECS);
    const spec = this.#specs[index]!;
    const leaving = random.float() < SHARE_THAT_LEAVES ? new AbortController() : null;
    // Some leave before the server has read the request, some in the middle of an answer.
    const timer = leaving === null ? null : sleep(random.float() * 60).then(() => leaving.abort());
    try {
      const { status, text } = await this.#ask(spec, this.#steady(spec), leaving?.signal);
      if (status === 503) report.busy += 1;
      else this.#hold(index, status, text, report);
    } catch (error) {
      if (leaving?.signal.aborted !== true) report.wrong.push(`no answer to ${index}: ${causesOf(error)}`);
      else report.left += 1;
    }
    await timer;
  }

  /** A name that serves while requests run through it, and is unloaded before they end. */
  async #exchangeAdapter(random: Random, report: { answered: number; loads: number; wrong: string[] }): Promise<void> {
    const adapter = random.integer(ADAPTERS);
    const name = `passing-${random.uint32()}-${report.loads}`;
    const loaded = await this.#post('/v1/load_lora_adapter', { lora_name: name, lora_path: this.#directory(adapter) });
    report.loads += 1;
    if (loaded.status !== 200) report.wrong.push(`load: ${loaded.status} ${loaded.text}`);
    const through = this.#specs.map((spec, i) => ({ spec, i })).filter(({ spec }) => spec.adapter === adapter);
    const asked = through.slice(0, 3).map(async ({ spec, i }) => ({ i, ...(await this.#ask(spec, name)) }));
    await sleep(random.float() * 10);
    const unloaded = await this.#post('/v1/unload_lora_adapter', { lora_name: name });
    if (unloaded.status !== 200) report.wrong.push(`unload: ${unloaded.status} ${unloaded.text}`);
    for (const { i, status, text } of await Promise.all(asked)) {
      // Requests that came after the name was gone, or while the server was full.
      if (status !== 404 && status !== 503) this.#hold(i, status, text, report);
    }
  }

  #hold(index: number, status: number, text: string, report: { answered: number; wrong: string[] }): void {
    report.answered += 1;
    if (status !== 200) return void report.wrong.push(`${status} for ${index}: ${text.slice(0, 300)}`);
    const got = essence(this.#specs[index]!, text);
    if (got !== this.#expected[index]) report.wrong.push(`expected ${this.#expected[index]!.slice(0, 300)} for ${index}, got ${got.slice(0, 300)}`);
  }

  #ask({ fields, isStreamed }: Spec, model: string, signal?: AbortSignal) {
    return this.#post('/v1/completions', { model, ...fields, ...(isStreamed ? { stream: true } : {}) }, signal);
  }

  async #post(path: string, body: unknown, signal?: AbortSignal): Promise<{ status: number; text: string }> {
    const options = { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body), ...(signal === undefined ? {} : { signal }) };
    try {
      const response = await fetch(`${this.#options.url}${path}`, options);
      return { status: response.status, text: await response.text() };
    } catch (error) {
      // The server closed a connection that was idle for minutes. Clients ask again.
      if (isUnusedConnection(error)) return this.#post(path, body, signal);
      throw error;
    }
  }

  #steady({ adapter }: Spec): string {
    return adapter === null ? this.#options.baseModel : `steady-${adapter}`;
  }

  #directory(adapter: number): string {
    return join(this.#options.folder, `adapter-${adapter}`);
  }
}

function randomSpec(random: Random): Spec {
  const kind = random.integer(4);
  const ids = (count: number) => Array.from({ length: count }, () => random.integer(1500));
  // Shared heads of several lengths, so that prefixes are found in the cache.
  const head = Array.from({ length: 16 * random.integer(6) }, (_, i) => 300 + ((i * 37) % 900));
  return {
    adapter: kind < ADAPTERS ? kind : null,
    isStreamed: random.float() < 0.4,
    fields: {
      prompt: [...head, ...ids(1 + random.integer(60))],
      max_tokens: 1 + random.integer(60),
      seed: random.uint32(),
      temperature: [0, 0.7, 1][random.integer(3)]!,
      top_p: [1, 0.9][random.integer(2)]!,
      top_k: [-1, 20][random.integer(2)]!,
      logprobs: random.integer(3),
      ignore_eos: random.float() < 0.5,
      stop: random.float() < 0.3 ? ['</answer>', ' the'] : [],
      return_token_ids: true,
    },
  };
}

/** The connection ended before it delivered a byte. */
function isUnusedConnection(error: unknown): boolean {
  const { code, socket } = ((error as Error).cause ?? {}) as { code?: string; socket?: { bytesRead: number } };
  return code === 'UND_ERR_SOCKET' && socket?.bytesRead === 0;
}

function causesOf(error: unknown): string {
  return error instanceof Error && error.cause !== undefined ? `${String(error)}: ${causesOf(error.cause)}` : String(error);
}

/** Text, ids, log-probs to the last bit, and how it ended. */
function essence({ isStreamed }: Spec, text: string): string {
  type Choice = { text: string; token_ids: number[]; logprobs: { token_logprobs: number[] }; finish_reason: string | null; stop_reason: unknown };
  const parts = isStreamed ? eventsOf(text).events : [JSON.parse(text)];
  const choices = parts.flatMap((part: { choices?: Choice[] }) => part.choices ?? []);
  const last = choices.at(-1);
  return JSON.stringify([
    choices.map((choice) => choice.text).join(''),
    choices.flatMap((choice) => choice.token_ids),
    choices.flatMap((choice) => choice.logprobs.token_logprobs),
    last?.finish_reason,
    last?.stop_reason,
  ]);
}
