/** Finds the prices of a run's models in the endpoint registry. */
import { ConfigError } from '../../core/errors.ts';
import { FREE, type Price } from '../../core/price.ts';
import type { CostOptions, PricedModel } from '../../evaluate/run-cost.ts';
import type { Environment } from '../../core/environment.ts';
import type { ResolvedRole } from '../roles/resolve-roles.ts';
import { type EndpointRegistry, readEndpoints } from './endpoints.ts';
import type { OpenedPolicy } from './open-policy.ts';
import { isLoopback, type PolicyTarget } from './policy-target.ts';
import type { SettingNames } from '../setting-names.ts';
import { withoutTrailingSlashes } from '../../core/server-url.ts';

export interface RunPricesOptions {
  /** US dollars; null for no limit. */
  readonly limit: number | null;
  /** The endpoint registry; null for the default file. */
  readonly endpointsPath: string | null;
  readonly names: SettingNames;
  readonly target: PolicyTarget;
  readonly policy: Pick<OpenedPolicy, 'model'>;
  readonly environment: Pick<Environment, 'id' | 'programModels'>;
  readonly roles: readonly ResolvedRole[];
  /** By role, the name of its model. */
  readonly players: Readonly<Record<string, string>>;
}

/** A model, its caller, and its address; without URLs it runs in this process. */
interface AskedModel {
  readonly asker: string;
  readonly model: string;
  readonly alias: string | null;
  readonly baseUrls: readonly string[];
  /** The price that the caller gave. @default that of the registry */
  readonly price?: Price | null;
  /** A model of the AI SDK, whose address is not known. @default false */
  readonly isRemote?: boolean;
}

const NO_REGISTRY: EndpointRegistry = { path: 'configs/endpoints.toml', isPackaged: false, endpoints: [] };

/**
 * Null if no model can cost anything (all run in this process, or on servers of this machine without a price), and for a program whose models are not counted. Throws ConfigError for a limit with a model that has
 * no price.
 */
export async function runPrices(options: RunPricesOptions): Promise<CostOptions | null> {
  const { limit, endpointsPath, names, target, environment } = options;
  const isUncounted = target.kind === 'program' && (environment.programModels?.description ?? null) !== null;
  if (limit !== null && isUncounted)
    throw new ConfigError(
      `${names.name('maxCostUsd')} cannot be used with ${environment.id}: it asks models of its own, whose tokens are not counted. Leave it out.`,
    );
  const policy: AskedModel =
    target.kind === 'endpoint'
      ? { asker: 'the policy', model: options.policy.model, alias: target.alias, baseUrls: target.baseUrls, price: target.price ?? null }
      : target.kind === 'language-model'
        ? { ...OWN_POLICY, model: options.policy.model, price: target.price ?? null, isRemote: true }
        : { ...OWN_POLICY, model: options.policy.model };
  return pricesOf(policy, options, { limit, isUncounted, endpointsPath, limitName: names.name('maxCostUsd') });
}

/** Like `runPrices`, for a training: its policy is a server of the user's own, which has no price per token. */
export function trainingPrices(models: Pick<RunPricesOptions, 'roles' | 'players'>, limit: number | null): Promise<CostOptions | null> {
  return pricesOf(OWN_POLICY, models, { limit, isUncounted: false, endpointsPath: null, limitName: '--max-cost' });
}

const OWN_POLICY: AskedModel = { asker: 'the policy', model: 'the policy', alias: null, baseUrls: [] };

interface PricesOptions {
  readonly limit: number | null;
  readonly isUncounted: boolean;
  readonly endpointsPath: string | null;
  /** The caller's name for the limit. */
  readonly limitName: string;
}

async function pricesOf(
  policy: AskedModel,
  models: Pick<RunPricesOptions, 'roles' | 'players'>,
  { limit, isUncounted, endpointsPath, limitName }: PricesOptions,
): Promise<CostOptions | null> {
  const roles = models.roles.map(({ role, player }): readonly [string, AskedModel] => {
    const asked = { asker: `role ${role}`, model: models.players[role] ?? role };
    if (player.kind === 'policy') return [role, { ...policy, asker: asked.asker }];
    return [
      role,
      player.kind === 'endpoint'
        ? { ...asked, alias: player.alias, baseUrls: player.baseUrls }
        : { ...asked, alias: null, baseUrls: [], isRemote: player.model.isRemote ?? false },
    ];
  });
  const all = [policy, ...roles.map(([, asked]) => asked)];
  const registry = all.every(({ baseUrls }) => baseUrls.length === 0) ? NO_REGISTRY : await registryOf(endpointsPath, limit);
  const unpriced = all.filter((asked) => priceOf(asked, registry) === null);
  if (limit !== null && unpriced.length > 0) throw unknownPrice(unpriced[0]!, registry, limitName);
  const isElsewhere = ({ baseUrls, isRemote = false }: AskedModel) => isRemote || baseUrls.length > 0;
  const mayCost = all.some((asked) =>
    priceOf(asked, registry) === null ? asked.isRemote === true || !asked.baseUrls.every(isLoopback) : isElsewhere(asked),
  );
  if ((!mayCost || isUncounted) && limit === null) return null;
  const priced = (asked: AskedModel): PricedModel => ({ model: asked.model, price: priceOf(asked, registry) });
  return { policy: priced(policy), roles: Object.fromEntries(roles.map(([role, asked]) => [role, priced(asked)])), limit };
}

/** A file that cannot be read concerns only a run that names an alias, which fails before, or a ceiling. */
async function registryOf(endpointsPath: string | null, limit: number | null): Promise<EndpointRegistry> {
  try {
    return await readEndpoints(endpointsPath);
  } catch (error) {
    if (!(error instanceof ConfigError) || limit !== null) throw error;
    return NO_REGISTRY;
  }
}

/** The caller's price, else that of the alias, else of any endpoint with the same URL and model; null if none has a price. */
function priceOf({ alias, model, baseUrls, price = null, isRemote = false }: AskedModel, { endpoints }: EndpointRegistry): Price | null {
  if (price !== null) return price;
  if (isRemote) return null;
  if (baseUrls.length === 0) return FREE;
  const rows = alias === null ? endpoints.filter((row) => row.model === model && baseUrls.some((url) => isSameUrl(url, row.baseUrl))) : endpoints;
  return rows.find((row) => (alias === null || row.id === alias) && row.price !== null)?.price ?? null;
}

function isSameUrl(a: string, b: string): boolean {
  return withoutTrailingSlashes(a) === withoutTrailingSlashes(b);
}

function unknownPrice({ asker, model, alias, isRemote = false }: AskedModel, { path, isPackaged }: EndpointRegistry, limitName: string): ConfigError {
  if (isRemote)
    return new ConfigError(
      `${limitName} needs the price of every model, and ${model} (${asker}) is a model of the AI SDK without one. In code, give the policy { languageModel, price: { input: 0.5, cached: 0.1, output: 1.5 } }, in US dollars per million tokens; otherwise leave the limit out.`,
    );
  const file = isPackaged ? 'configs/endpoints.toml' : path;
  const place = alias === null ? `a table [[endpoint]] with its url and model to ${file}` : `the price to alias ${alias} in ${file}`;
  return new ConfigError(
    `${limitName} needs the price of every model, and ${model} (${asker}) has none. Add ${place}: price = { input = 0.5, cached = 0.1, output = 1.5 }, in US dollars per million tokens, or 0 for a server of your own.`,
  );
}
