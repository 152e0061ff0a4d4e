/** The policy server over the real engine and test/models/nano-base, and short ways to ask it. */
import { join } from 'node:path';
import { EmbeddedEngine } from '../../../src/engine/embedded-engine.ts';
import type { EngineOptions } from '../../../src/engine/engine-types.ts';
import { type PolicyServer, type PolicyServerSettings, startPolicyServer } from '../../../src/server/policy/start-policy-server.ts';

export const NANO_PATH = join(import.meta.dirname, '../../models/nano-base');

export interface NanoServer extends PolicyServer, AsyncDisposable {
  /** What the server reported as its own fault. */
  readonly failures: readonly unknown[];
  post(path: string, body: unknown): Promise<JsonAnswer>;
  get(path: string): Promise<JsonAnswer>;
}

export interface JsonAnswer {
  readonly status: number;
  readonly text: string;
  /** Null if it is not JSON. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the tests say what they expect of it
  readonly body: any;
}

export type NanoServerOptions = Partial<PolicyServerSettings> & { readonly engine?: Partial<EngineOptions> };

export async function nanoServer({ engine: engineOptions, ...settings }: NanoServerOptions = {}): Promise<NanoServer> {
  const failures: unknown[] = [];
  const engine = await EmbeddedEngine.open({ modelPath: NANO_PATH, threads: 1, signal: new AbortController().signal, ...engineOptions });
  const server = await startPolicyServer({ engine, apiKey: null, onFailure: (error) => failures.push(error), ...settings });
  const close = async () => {
    await server.close({ graceMs: 0 });
    await engine.close();
  };
  return {
    ...server,
    failures,
    close,
    post: async (path, body) => answerOf(await fetch(`${server.url}${path}`, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) })),
    get: async (path) => answerOf(await fetch(`${server.url}${path}`)),
    [Symbol.asyncDispose]: close,
  };
}

export const JSON_TYPE = { 'content-type': 'application/json' };

export async function answerOf(response: Response): Promise<JsonAnswer> {
  const text = await response.text();
  let body: unknown = null;
  try {
    body = JSON.parse(text);
  } catch {
    // Some answers are text.
  }
  return { status: response.status, text, body };
}

/** The objects of an event stream, without the mark of its end. */
export function eventsOf(text: string): { readonly events: readonly JsonAnswer['body'][]; readonly isEnded: boolean } {
  const lines = text.split('\n\n').filter((line) => line !== '');
  const data = lines.map((line) => line.replace(/^data: /, ''));
  return { events: data.filter((line) => line !== '[DONE]').map((line) => JSON.parse(line) as unknown), isEnded: data.at(-1) === '[DONE]' };
}
