/** The meanings of a replica's refusals, and the remedy for each. */
import { PublishError, type VfError } from '../../core/errors.ts';
import { firstNames } from '../../core/first-names.ts';
import type { LoraCard } from '../../schemas/lora-server.ts';
import { parseVllmError } from '../../schemas/vllm.ts';
import { errorFields } from '../../schemas/error-fields.ts';
import { creditText, isOutOfCredit } from '../../schemas/out-of-credit.ts';
import { pageText, refusedBy } from '../../schemas/key-refusal.ts';
import { type HttpResponse, statusOptions } from '../../transport/http-endpoint.ts';

/** The server has no model of that name: it was never loaded, was unloaded, or the server was restarted. */
export class ModelGoneError extends PublishError {}

/** The server computed NaN or an infinity. Every request that reuses the same cache blocks may fail too, until they are evicted. */
export class NumericServerError extends PublishError {}

export function errorMessage({ body }: HttpResponse): string {
  return parseVllmError(body.toString('utf8'))?.message ?? '';
}

/** `exchange`: request, status and the beginning of the body. */
export function loadError(exchange: string, path: string, response: HttpResponse): VfError {
  const { status } = response;
  const message = errorMessage(response);
  if ((status === 404 && /^(not found)?$/i.test(message)) || status === 405) {
    return new PublishError(
      `The server cannot load adapters at run time: ${exchange}. Start vLLM with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment and --enable-lora --max-lora-rank N --max-loras M`,
      // A proxy answers 404 with its own page while the server restarts.
      { status, endsRun: message !== '' },
    );
  }
  if (status === 404) {
    return new PublishError(
      `The server does not find ${path}: ${exchange}. If it sees the adapter directory under another path (containers), set publish.server_adapter_dir`,
      { status, retryable: true },
    );
  }
  const rank = /rank (\d+) is greater than max_lora_rank (\d+)/i.exec(message);
  if (rank !== null) return rankError(Number(rank[1]), Number(rank[2]), exchange, status);
  if (refusedBy(status, response.body) === 'other') {
    return new PublishError(
      `The server may not load adapters from ${path}: ${exchange}. Start it so that it may (vf-serve policy: --allow-adapters-under), or move the run with -o to a folder that it may read`,
      { status, endsRun: true },
    );
  }
  if (status === 401 || status === 402 || status === 403) return requestError(exchange, response);
  if (/permission denied/i.test(message)) {
    return new PublishError(
      `The server's user may not read ${path}: ${exchange}. Give it permission to read the folder and the folders above it, or move the run with -o to a folder that it may read`,
      { status, endsRun: true },
    );
  }
  // vLLM answers 500 for a bad adapter, so a retry is useless. Gateways and overloaded servers use other 5xx codes.
  return new PublishError(`The server did not load the adapter: ${exchange}`, status === 500 ? { status } : statusOptions(response));
}

/** `vf-serve policy` holds a fixed number of adapters; vLLM drops those that were used least recently. */
export function isFull(response: HttpResponse): boolean {
  return response.status === 400 && /adapters are loaded, which is the limit/i.test(errorMessage(response));
}

/** `cards`: what the server holds. `path`: the folder that it was to load. */
export function fullError(exchange: string, path: string, cards: readonly LoraCard[]): PublishError {
  const others = cards.filter(({ parent = null, root = null }) => parent !== null && root !== path);
  const names = others.map(({ id, root = null }) => (root === null ? id : `${id} (${root})`));
  return new PublishError(
    `The server has no place for a further adapter: ${exchange}. It holds ${names.length === 1 ? '1 other adapter' : `${names.length} other adapters`}: ${firstNames(names)}. Unload those that nobody uses (POST /v1/unload_lora_adapter with {"lora_name": "NAME"}), or use another server`,
    { status: 400, endsRun: true },
  );
}

/** @param exchange in which the server said so; null if its limit was known before */
export function rankError(rank: number, limit: number, exchange: string | null, status?: number): PublishError {
  const remedy = limit === 0 ? '--enable-lora --max-lora-rank' : '--max-lora-rank';
  return new PublishError(
    `Rank ${rank} exceeds the server's limit of ${limit}${exchange === null ? '' : `: ${exchange}`}. Start vLLM with ${remedy} ${rank} or more, or lower [lora] rank`,
    status === undefined ? { endsRun: true } : { status, endsRun: true },
  );
}

export function requestError(exchange: string, response: HttpResponse): VfError {
  const { status } = response;
  const { message = '', param = null } = parseVllmError(response.body.toString('utf8')) ?? {};
  if (/out of range float values/i.test(message))
    return new NumericServerError(`The server computed a log-prob that is not finite: ${exchange}`, { status });
  if (status === 404 && (param === 'model' || /does not exist/i.test(message))) {
    return new ModelGoneError(`The server does not have the model: ${exchange}`, { status });
  }
  const refused = refusedBy(status, response.body);
  if (status !== 401 && isOutOfCredit(status, errorFields(response.body))) return new PublishError(creditText(exchange), { status, endsRun: true });
  if (refused === 'page') return new PublishError(pageText(exchange), { status, endsRun: true });
  if (refused === 'other')
    return new PublishError(`The server, or a proxy before it, does not allow the request: ${exchange}`, { status, endsRun: true });
  if (refused === 'key')
    return new PublishError(`The server rejected the API key: ${exchange}. Check the variable that policy.api_key_var names`, {
      status,
      endsRun: true,
    });
  // A proxy answers 404 with its own page while the server restarts.
  const isProxys = status === 404 && message === '';
  return new PublishError(`The request failed: ${exchange}`, { ...statusOptions(response), ...(isProxys ? { retryable: true } : {}) });
}
