import { weightPublisherContract } from '../contracts/weight-publisher.ts';
import { serveNano } from './serve.ts';

/** A server with LoRA on, started unless one runs. */
async function loraVllm() {
  const running = process.env['VLLM_LORA_BASE_URL'];
  const baseModel = 'nano-base';
  if (running !== undefined && running !== '') return { url: running, baseModel, [Symbol.asyncDispose]: async () => {} };
  const { url, [Symbol.asyncDispose]: dispose } = await serveNano({ VF_VLLM_LORA: '1' });
  return { url, baseModel, [Symbol.asyncDispose]: () => dispose() as Promise<void> };
}

weightPublisherContract('real vLLM', loraVllm);
