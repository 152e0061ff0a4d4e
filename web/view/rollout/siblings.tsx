/** The rollouts of the same row, with their rewards. */
import type { VNode } from 'preact';
import type { RolloutDetail } from '../../../src/viewing/view-wire.ts';
import { formatReward } from '../figures/numbers.ts';
import type { Route } from '../route/route.ts';
import { patched } from '../route/use-route.ts';
import { Label } from '../text/label.tsx';

export function Siblings({ detail, route }: { readonly detail: RolloutDetail; readonly route: Route }): VNode {
  const { siblings, line } = detail;
  return (
    <nav class="siblings" aria-label="Rollouts of the same row">
      <span class="quiet-text">
        row <Label text={line.group} />
      </span>
      {siblings.map((one) => (
        <a
          key={one.index}
          href={patched(route, { index: one.index, at: undefined, branch: undefined })}
          class={one.reward === null ? 'sibling failed' : 'sibling'}
          aria-current={one.index === line.index ? 'page' : undefined}
          title={`Rollout ${one.index}${one.error === null ? '' : ', failed'}`}
        >
          <span class="sibling-index">{one.index}</span>
          {one.reward === null ? 'failed' : formatReward(one.reward)}
        </a>
      ))}
    </nav>
  );
}
