import type { RunCost } from '../../schemas/run-cost.ts';
import { usdText } from '../text/number-text.ts';

type ShownCost = Pick<RunCost, 'usd' | 'roles' | 'unpriced' | 'uncounted' | 'limit'> & Partial<Pick<RunCost, 'policy' | 'service' | 'repeated'>>;

/** `$0.0143: policy $0.0120, judge $0.0023`; without `policy`, only the models by role. The caller must escape the text. */
export function costText({ usd, policy, roles, service, repeated = null, unpriced, uncounted, limit }: ShownCost): string {
  const asked = [
    ...(service === undefined ? [] : [['training service', service] as const]),
    ...Object.entries(roles).filter(([, part]) => part !== 0),
  ];
  const parts =
    asked.length === 0
      ? []
      : [...(policy === undefined ? [] : [['policy', policy] as const]), ...asked].map(
          ([who, part]) => `${who} ${part === null ? 'unknown' : usdText(part)}`,
        );
  const again = repeated === null || repeated === 0 ? '' : `; ${usdText(repeated)} of it for attempts that failed and were played again`;
  const ceiling = limit === null ? '' : `; the limit is ${usdText(limit)}`;
  const missing =
    unpriced.length === 0 ? '' : `; ${unpriced.join(', ')} ${unpriced.length === 1 ? 'has' : 'have'} no price in configs/endpoints.toml`;
  const unreported = uncounted.length === 0 ? '' : `; ${noUsageText(uncounted)}`;
  return `${usd === null ? 'unknown' : usdText(usd)}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}${again}${ceiling}${missing}${unreported}`;
}

/** Explains why the cost of these models is unknown. */
export function noUsageText(models: readonly string[]): string {
  return `the ${models.length === 1 ? 'server' : 'servers'} of ${models.join(', ')} did not report the tokens of every call`;
}
