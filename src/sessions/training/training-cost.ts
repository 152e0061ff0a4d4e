/** The cost of a training's models by role and of its training service, including its earlier processes. */
import { billed, FREE, NO_TOKENS } from '../../core/price.ts';
import { type CostOptions, runCost } from '../../evaluate/run-cost.ts';
import { Spending } from '../../evaluate/spending.ts';
import type { RoleStats } from '../../schemas/role-stats.ts';
import type { RunCost } from '../../schemas/run-cost.ts';
import type { ServiceBill } from './service-bill.ts';

export interface TrainingPayments {
  /** Prices of the models by role; null if none can cost anything. */
  readonly prices: CostOptions | null;
  /** Null for a run without a training service. */
  readonly bill: Pick<ServiceBill, 'usd' | 'price'> | null;
}

const NOTHING: CostOptions = { policy: { model: 'the policy', price: FREE }, roles: {}, limit: null };

/** Null if nothing can cost anything. A service on this machine costs something only if it has a price. */
export function trainingCost(stats: ReadonlyMap<string, RoleStats>, { prices, bill }: TrainingPayments): RunCost | null {
  const service = bill === null || (bill.price.isLocal && bill.price.usd === null) ? null : bill;
  if (prices === null && service === null) return null;
  const cost = roleCost(prices === null ? new Map<string, RoleStats>() : stats, prices ?? NOTHING);
  if (service === null) return cost;
  const { usd: paid, price } = service;
  const usd = cost.usd === null || paid === null ? null : cost.usd + paid;
  const unpriced = paid === null ? [...new Set([...cost.unpriced, price.model])] : cost.unpriced;
  return { ...cost, usd, unpriced, service: paid, limitReached: isReached(usd, cost.limit) };
}

function roleCost(stats: ReadonlyMap<string, RoleStats>, prices: CostOptions): RunCost {
  const roles = [...stats].flatMap(
    ([
      role,
      {
        tokens: { input, output, cached },
        uncounted,
      },
    ]) => {
      const tokens = { ...billed(input, output, cached), ...(uncounted === undefined ? {} : { uncounted }) };
      return input + output === 0 && uncounted === undefined ? [] : [[role, tokens] as const];
    },
  );
  const all = Spending.of({ policy: NO_TOKENS, roles: Object.fromEntries(roles) });
  const cost = runCost({ all, repeated: new Spending() }, prices, false);
  return { ...cost, limitReached: isReached(cost.usd, prices.limit) };
}

function isReached(usd: number | null, limit: number | null): boolean {
  return limit !== null && (usd ?? Infinity) >= limit;
}
