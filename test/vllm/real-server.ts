/** Global set-up of the real-vLLM tests: gives them the URLs of two servers of test/models/nano-base, started at once unless they run. */
import type { TestProject } from 'vitest/node';
import { type ServedModel, serveNano } from './serve.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Ends with `/v1`. */
    vllmUrl: string;
    /** Of a server that accepts LoRA adapters. It dies when asked for prompt log-probs during another request. */
    vllmLoraUrl: string;
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [plain, lora] = await Promise.all([served('VLLM_BASE_URL', {}), served('VLLM_LORA_BASE_URL', { VF_VLLM_LORA: '1' })]);
  project.provide('vllmUrl', plain.url);
  project.provide('vllmLoraUrl', lora.url);
  return async () => {
    await Promise.all([plain[Symbol.asyncDispose](), lora[Symbol.asyncDispose]()]);
  };
}

async function served(variable: string, env: Readonly<Record<string, string>>): Promise<ServedModel> {
  const running = process.env[variable];
  return running === undefined || running === '' ? serveNano(env) : { url: running, async [Symbol.asyncDispose]() {} };
}
