/** Computes the cost of a run from its tokens and the prices of its models, and decides when no further rows begin. */
import type { Row } from '../core/dataset.ts';
import { type BilledTokens, costOf, type Price } from '../core/price.ts';
import type { RolloutGroup } from '../rollouts/run-rollouts.ts';
import type { RunCost } from '../schemas/run-cost.ts';
import type { Spending } from './spending.ts';

/** A model and its price; null if the price is unknown. */
export interface PricedModel {
  readonly model: string;
  readonly price: Price | null;
}

export interface CostOptions {
  readonly policy: PricedModel;
  /** By role. */
  readonly roles: Readonly<Record<string, PricedModel>>;
  /** US dollars at which no further rows begin; null for no limit. Every price must be known then. */
  readonly limit: number | null;
}

/** `repeated`: the part of `spent` that failed and was played again. */
export interface Spent {
  readonly all: Spending;
  readonly repeated: Spending;
}

export function runCost({ all, repeated }: Spent, options: CostOptions, limitReached: boolean): RunCost {
  const parts = costs(all, options);
  const { policy, ...named } = options;
  const roles = Object.entries(named.roles);
  const asked = [...(hasTokens(all.policy) ? [policy] : []), ...roles.filter(([role]) => all.roles.has(role)).map(([, priced]) => priced)];
  return {
    usd: total(parts),
    policy: parts.policy,
    roles: Object.fromEntries(parts.roles),
    repeated: total(costs(repeated, options)),
    unpriced: [...new Set(asked.filter(({ price }) => price === null).map(({ model }) => model))],
    uncounted: uncountedModels(all, options),
    limit: options.limit,
    limitReached,
  };
}

interface Parts {
  readonly policy: number | null;
  readonly roles: readonly (readonly [role: string, usd: number | null])[];
}

function costs({ policy, roles }: Spending, options: CostOptions): Parts {
  return {
    policy: cost(policy, options.policy.price),
    roles: [...roles].map(([role, tokens]) => [role, cost(tokens, options.roles[role]?.price ?? null)] as const),
  };
}

function cost(tokens: BilledTokens, price: Price | null): number | null {
  if (!hasTokens(tokens)) return 0;
  return price === null || isUncounted(tokens, price) ? null : costOf(tokens, price);
}

function hasTokens({ input, output, uncounted }: BilledTokens): boolean {
  return input + output > 0 || uncounted !== undefined;
}

/** True if some calls have a price and an unknown number of tokens. */
function isUncounted({ uncounted }: BilledTokens, { input, cached, output }: Price): boolean {
  return uncounted !== undefined && input + cached + output > 0;
}

/** The models with a price whose servers did not report all tokens. */
function uncountedModels({ policy, roles }: Spending, options: CostOptions): string[] {
  const payers = [[policy, options.policy] as const, ...[...roles].map(([role, tokens]) => [tokens, options.roles[role]] as const)];
  const models = payers.flatMap(([tokens, priced]) => (priced?.price && isUncounted(tokens, priced.price) ? [priced.model] : []));
  return [...new Set(models)];
}

function total({ policy, roles }: Parts): number | null {
  return [policy, ...roles.map(([, usd]) => usd)].reduce((sum, usd) => (sum === null || usd === null ? null : sum + usd), 0 as number | null);
}

export interface CeilingOptions {
  readonly limit: number;
  /** The cost of the run so far, and the rollouts that this covers. */
  readonly soFar: () => { readonly usd: number; readonly rollouts: number };
}

/**
 * Passes groups on until the limit is reached. Rollouts in flight count with the mean cost of those that ended, so that a run ends near its limit; before the
 * first has ended they count nothing.
 */
export class CostCeiling {
  readonly #options: CeilingOptions;
  readonly #before: number;
  #begun = 0;
  #isReached = false;

  constructor(options: CeilingOptions) {
    this.#options = options;
    this.#before = options.soFar().rollouts;
  }

  /** True if some group was not begun. */
  get isReached(): boolean {
    return this.#isReached;
  }

  *within<R extends Row>(groups: Iterable<RolloutGroup<R>>): Generator<RolloutGroup<R>, void> {
    for (const group of groups) {
      if (this.#expected() >= this.#options.limit) {
        this.#isReached = true;
        return;
      }
      this.#begun += group.indices.length;
      yield group;
    }
  }

  #expected(): number {
    const { usd, rollouts } = this.#options.soFar();
    const inFlight = this.#begun - (rollouts - this.#before);
    return rollouts === 0 ? usd : usd + (inFlight * usd) / rollouts;
  }
}
