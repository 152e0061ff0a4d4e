/** Global set-up of the interop tests: the models that they share, each started when a suite first asks for it and stopped at the end. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { serveNano } from '../vllm/serve.ts';
import { serveCommand } from './serve-command.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** `GET /<kind>` starts that model unless it runs, and answers its URL, which ends with `/v1`; 500 and the reason where it does not start. */
    modelsUrl: string;
  }
}

/** Without a chat template, with one, and a real vLLM with the same. */
export type ModelKind = 'completions' | 'chat' | 'vllm';

type Served = AsyncDisposable & { readonly url: string };

const TEMPLATE = join(import.meta.dirname, '../tokenizer/chatml.jinja');

const START: Readonly<Record<ModelKind, () => Promise<Served>>> = {
  completions: () => serveCommand(['policy']),
  chat: () => serveCommand(['policy', '--chat-template', TEMPLATE]),
  async vllm() {
    const running = process.env['VLLM_BASE_URL'] ?? '';
    return running === '' ? serveNano({}, ['--chat-template', TEMPLATE]) : { url: running, async [Symbol.asyncDispose]() {} };
  },
};

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const models = new Map<ModelKind, Promise<Served>>();
  const server = createServer((request, response) => {
    const kind = request.url!.slice(1) as ModelKind;
    if (!models.has(kind)) models.set(kind, START[kind]());
    models.get(kind)!.then(
      ({ url }) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  project.provide('modelsUrl', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return async () => {
    server.closeAllConnections();
    server.close();
    for (const started of await Promise.allSettled(models.values())) {
      if (started.status === 'fulfilled') await started.value[Symbol.asyncDispose]();
    }
  };
}
