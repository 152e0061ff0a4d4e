/** Finds the price of a run's model at its training service, in the endpoint registry. */
import { ConfigError } from '../../core/errors.ts';
import { withoutTrailingSlashes } from '../../core/server-url.ts';
import { settingNumber } from '../../core/setting-number.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { ServiceTokens } from '../../tinker/service/token-meter.ts';
import { redactUrl } from '../../transport/redact.ts';
import { type EndpointRegistry, readEndpoints } from '../policy/endpoints.ts';
import { isLoopback } from '../policy/policy-target.ts';
import { HOSTED_TINKER } from './connect-tinker.ts';

export interface ServicePrice {
  /** The service's name of the base. */
  readonly model: string;
  /** US dollars per million tokens; null if unknown. */
  readonly usd: ServiceTokens | null;
  /** The service runs on this machine. */
  readonly isLocal: boolean;
  /** Says what to write where, if there is no price. */
  readonly remedy: string;
}

/** Null for a run without a training service. Throws ConfigError for `guards.max_cost` without a price, and then also if the registry cannot be read. */
export async function servicePrice({ backend, model, guards }: Pick<TrainingConfig, 'backend' | 'model' | 'guards'>): Promise<ServicePrice | null> {
  if (backend.kind !== 'tinker') return null;
  const limit = guards.maxCost;
  const url = withoutTrailingSlashes(backend.baseUrl ?? HOSTED_TINKER);
  const name = backend.model ?? model.path;
  const registry = await readEndpoints(null).catch((error: unknown): EndpointRegistry => {
    if (!(error instanceof ConfigError) || limit !== null) throw error;
    return { path: 'configs/endpoints.toml', isPackaged: false, endpoints: [] };
  });
  const rows = registry.endpoints.filter((row) => row.model === name && withoutTrailingSlashes(row.baseUrl) === url);
  const row = rows.find(({ trainPrice }) => trainPrice !== undefined);
  const file = registry.isPackaged ? 'configs/endpoints.toml' : registry.path;
  const place =
    rows.length === 0 ? `a table [[endpoint]] with url = "${redactUrl(url)}" and model = "${name}" to ${file}` : `it to ${rows[0]!.id} in ${file}`;
  const remedy = `Add ${place}: price = { input = 0.195, output = 0.60, train = 0.44 }, in US dollars per million tokens that the service reads, samples and trains on`;
  const usd = row === undefined || row.price === null ? null : { prefill: row.price.input, sample: row.price.output, train: row.trainPrice! };
  if (limit !== null && usd === null)
    throw new ConfigError(
      `--max-cost needs the price of every model, and ${name} (the training service) has none. ${remedy}, or 0 for a service of your own.`,
    );
  return { model: name, usd, isLocal: isLoopback(url), remedy };
}

/** In US dollars. */
export function serviceCost({ prefill, sample, train }: ServiceTokens, price: ServiceTokens): number {
  return (prefill * price.prefill + sample * price.sample + train * price.train) / 1e6;
}

/** `prefill $0.195, sample $0.6, train $0.44 per million tokens`. */
export function servicePriceText({ prefill, sample, train }: ServiceTokens): string {
  return `prefill $${settingNumber(prefill)}, sample $${settingNumber(sample)}, train $${settingNumber(train)} per million tokens`;
}
