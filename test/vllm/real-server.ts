/** Global set-up of the real-vLLM tests: gives them the URL of a server of test/models/nano-base, started unless one runs. */
import type { TestProject } from 'vitest/node';
import { serveNano } from './serve.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Ends with `/v1`. */
    vllmUrl: string;
  }
}

export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const running = process.env['VLLM_BASE_URL'];
  if (running !== undefined && running !== '') {
    project.provide('vllmUrl', running);
    return undefined;
  }
  const server = await serveNano();
  project.provide('vllmUrl', server.url);
  return () => server[Symbol.asyncDispose]() as Promise<void>;
}
