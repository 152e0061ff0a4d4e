/** Whether a running vLLM takes adapters, found out without loading one. Facts about vLLM are of 0.32.0. */
import type { Random } from '../core/random.ts';
import type { HttpEndpoint } from '../transport/http-endpoint.ts';
import { withRetries } from '../transport/retry.ts';

/**
 * `missing`: started without VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. `disabled`: the routes are there with that variable alone, and a load tells that
 * --enable-lora is missing. `unknown`: it answers as no vLLM that is known does; `text` quotes it.
 */
export type AdapterRoutes = { readonly kind: 'ready' | 'missing' | 'disabled' } | { readonly kind: 'unknown'; readonly text: string };

export interface AskOptions {
  /** Of one request. */
  readonly timeoutMs: number;
  /** Attempts beyond the first. */
  readonly maxRetries: number;
  readonly random: Random;
  readonly signal: AbortSignal;
}

/** Throws what the endpoint does where there is no answer. */
export async function askAdapterRoutes(endpoint: HttpEndpoint, options: AskOptions): Promise<AdapterRoutes> {
  const load = (fields: object) =>
    withRetries((signal) => endpoint.request({ method: 'POST', path: '/v1/load_lora_adapter', body: JSON.stringify(fields), signal }), options);
  const empty = await load({});
  if (empty.status === 404 || empty.status === 405) return { kind: 'missing' };
  // A folder that cannot be there: refused after the server has looked whether it takes adapters at all.
  const absent = await load({ lora_name: 'vf-search-asks', lora_path: '/nonexistent/vf-search-asks' });
  const said = absent.body.toString('utf8');
  if (/LoRA is not enabled/i.test(said)) return { kind: 'disabled' };
  if (empty.status === 400 && absent.status === 404) return { kind: 'ready' };
  const odd = `it answers ${empty.status} and ${absent.status} where vLLM 0.32 answers 400 and 404: ${endpoint.hide(said).slice(0, 160)}`;
  return { kind: 'unknown', text: odd };
}
