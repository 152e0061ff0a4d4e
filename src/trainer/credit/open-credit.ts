import type { Credit } from '../credit.ts';
import { type CreditConfig, GroupCredit } from './group-credit.ts';
import { ScopeCredit } from './scope-credit.ts';

/** The credit assignment that `[algorithm.advantage]` describes. */
export function openCredit(config: CreditConfig): Credit {
  return config.algorithm.advantage.scope === 'group' ? new GroupCredit(config) : new ScopeCredit(config);
}
