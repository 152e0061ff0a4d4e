/** An adapter on a running vLLM, under a name that no other weights have: vLLM's prefix cache knows an adapter only by its name. */
import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import { Random } from 'vf-search';
import { LoraReplica } from '../../src/trainer/publisher/lora-routes.ts';
import { readRegularBytesSync } from '../../src/files/regular-file.ts';

const TIMEOUT_MS = 600_000;

/** Calls `use` with the server's name of the adapter, a PEFT directory. */
export async function withAdapter<T>(url: string, directory: string, use: (model: string) => Promise<T>): Promise<T> {
  const name = adapterName(directory);
  const { signal } = new AbortController();
  const replica = new LoraReplica({ baseUrl: url, maxRetries: 3, timeoutMs: TIMEOUT_MS, random: Random.fromSeed(0) });
  try {
    await replica.load(name, resolve(directory), signal);
    const result = await use(name);
    await replica.unload(name, signal);
    return result;
  } finally {
    await replica.close();
  }
}

/** The name is the same for the same weights, so that an interrupted evaluation can continue. */
function adapterName(directory: string): string {
  const weights = readRegularBytesSync(join(directory, 'adapter_model.safetensors'));
  return `adapter-${createHash('sha256').update(weights).digest('hex').slice(0, 12)}`;
}
