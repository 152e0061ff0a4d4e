/** Tables of an evaluation's summary: chances of passing with k tries, and the models other than the policy. */
import type { VNode } from 'preact';
import { Interval, intervalText } from '../figures/interval.tsx';
import { formatCount, formatNumber, formatReward } from '../figures/numbers.ts';
import { Text } from '../text/text.tsx';
import type { RoleFigures, Summary } from './summary.ts';

export function PassTable({ summary }: { readonly summary: Summary }): VNode | null {
  if (summary.passes.length === 0) return null;
  return (
    <section>
      <h2>Passes with k tries</h2>
      <table class="small-table passes">
        <thead>
          <tr>
            <th scope="col" class="number">
              k
            </th>
            <th scope="col" colSpan={2}>
              at least one
            </th>
            <th scope="col" colSpan={2}>
              all of them
            </th>
          </tr>
        </thead>
        <tbody>
          {summary.passes.map(({ k, any, all }) => (
            <tr key={k}>
              <td class="number">{k}</td>
              <td class="number" title={intervalText(any)}>
                {formatReward(any?.value)}
              </td>
              <td>
                <Interval estimate={any} />
              </td>
              <td class="number" title={intervalText(all)}>
                {formatReward(all?.value)}
              </td>
              <td>
                <Interval estimate={all} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {summary.passThreshold !== null && <p class="quiet-text">A pass is a reward of {formatNumber(summary.passThreshold)} or more.</p>}
    </section>
  );
}

export function RolesTable({ roles }: { readonly roles: readonly RoleFigures[] }): VNode | null {
  if (roles.length === 0) return null;
  return (
    <section>
      <h2>Models other than the policy</h2>
      <div class="scrolls">
        <table class="small-table">
          <thead>
            <tr>
              {['Role', 'Model'].map((name) => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
              {['Calls', 'From cache', 'Failed', 'Tokens read', 'Written', 'Median ms', '90 % ms'].map((name) => (
                <th scope="col" key={name} class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {roles.map((role) => (
              <tr key={role.role}>
                <th scope="row">
                  <Text text={role.role} />
                </th>
                <td>
                  <Text text={role.models} />
                </td>
                {[role.calls, role.cacheHits, role.failures, role.inputTokens, role.outputTokens].map((value, i) => (
                  <td class="number" key={i}>
                    {value === null ? '\u2013' : formatCount(value)}
                  </td>
                ))}
                <td class="number">{formatNumber(role.p50Ms)}</td>
                <td class="number">{formatNumber(role.p90Ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
