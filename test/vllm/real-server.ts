/** Global set-up of the real-vLLM tests: gives them the URLs of three servers of test/models/nano-base, started at once unless they run. */
import type { TestProject } from 'vitest/node';
import { serveNano, serveUnlessGiven } from './serve.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Ends with `/v1`. */
    vllmUrl: string;
    /** Of a server that accepts LoRA adapters. It dies when asked for prompt log-probs during another request. */
    vllmLoraUrl: string;
    /** Of a server with the chat template of Qwen3.5 and a window of 16,384 tokens. */
    vllmTemplateUrl: string;
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const template = ['--chat-template', 'test/golden/chat-templates/qwen-3-5.jinja'];
  const [plain, lora, templated] = await Promise.all([
    serveUnlessGiven('VLLM_BASE_URL', () => serveNano()),
    serveUnlessGiven('VLLM_LORA_BASE_URL', () => serveNano({ VF_VLLM_LORA: '1' })),
    // Prompts of the document's pipeline contain each other, so they grow longer than this model was made for.
    serveUnlessGiven('VLLM_TEMPLATE_BASE_URL', () => serveNano({ VF_VLLM_MAX_MODEL_LEN: '16384', VLLM_ALLOW_LONG_MAX_MODEL_LEN: '1' }, template)),
  ]);
  project.provide('vllmUrl', plain.url);
  project.provide('vllmLoraUrl', lora.url);
  project.provide('vllmTemplateUrl', templated.url);
  return async () => {
    await Promise.all([plain, lora, templated].map((server) => server[Symbol.asyncDispose]()));
  };
}
