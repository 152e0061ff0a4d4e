/** The cost of a training's models by role, including its earlier processes. */
import { billed, NO_TOKENS } from '../../core/price.ts';
import { type CostOptions, runCost } from '../../evaluate/run-cost.ts';
import { Spending } from '../../evaluate/spending.ts';
import type { RoleStats } from '../../schemas/role-stats.ts';
import type { RunCost } from '../../schemas/run-cost.ts';

export function trainingCost(stats: ReadonlyMap<string, RoleStats>, prices: CostOptions): RunCost {
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
  return { ...cost, limitReached: prices.limit !== null && (cost.usd ?? Infinity) >= prices.limit };
}
