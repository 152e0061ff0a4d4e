/** Finds out whether a running vLLM accepts adapters, without loading one. Facts are about vLLM 0.32.0. */
import type { Random } from '../core/random.ts';
import type { HttpEndpoint } from '../transport/http-endpoint.ts';
import { withRetries } from '../transport/retry.ts';

/**
 * `missing`: the server was started without VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. `disabled`: the routes exist, but a load fails because --enable-lora
 * is missing. `unknown`: the answer matches no known vLLM; `text` quotes it.
 */
export type AdapterRoutes = { readonly kind: 'ready' | 'missing' | 'disabled' } | { readonly kind: 'unknown'; readonly text: string };

export interface AskOptions {
  /** Deadline of one request. */
  readonly timeoutMs: number;
  /** Attempts beyond the first. */
  readonly maxRetries: number;
  readonly random: Random;
  readonly signal: AbortSignal;
}

/** Throws the endpoint's error if there is no answer. */
export async function askAdapterRoutes(endpoint: HttpEndpoint, options: AskOptions): Promise<AdapterRoutes> {
  const load = (fields: object) =>
    withRetries((signal) => endpoint.request({ method: 'POST', path: '/v1/load_lora_adapter', body: JSON.stringify(fields), signal }), options);
  const empty = await load({});
  if (empty.status === 404 || empty.status === 405) return { kind: 'missing' };
  // A nonexistent folder: the server refuses it only after checking that adapters are enabled.
  const absent = await load({ lora_name: 'vf-search-asks', lora_path: '/nonexistent/vf-search-asks' });
  const said = absent.body.toString('utf8');
  if (/LoRA is not enabled/i.test(said)) return { kind: 'disabled' };
  if (empty.status === 400 && absent.status === 404) return { kind: 'ready' };
  const odd = `it answers ${empty.status} and ${absent.status} where vLLM 0.32 answers 400 and 404: ${endpoint.hide(said).slice(0, 160)}`;
  return { kind: 'unknown', text: odd };
}
