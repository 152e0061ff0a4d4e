/** An estimate with its interval: a point on a line, between the ends of a scale. */
import type { VNode } from 'preact';
import type { Estimate } from '../../../src/viewing/view-wire.ts';
import { formatReward } from './numbers.ts';

export interface Scale {
  readonly low: number;
  readonly high: number;
}

const UNIT_SCALE: Scale = { low: 0, high: 1 };

/** A scale that holds all estimates, from 0, and up to at least 1 if they are shares. */
export function scaleOf(estimates: readonly (Estimate | null)[]): Scale {
  const ends = estimates.flatMap((e) => (e === null ? [] : [e.value, e.low ?? e.value, e.high ?? e.value]));
  const low = Math.min(0, ...ends);
  const high = Math.max(...ends, low < 0 ? 0 : 1);
  return high > low ? { low, high } : UNIT_SCALE;
}

export interface IntervalProps {
  readonly estimate: Estimate | null;
  readonly scale?: Scale;
  /** The place of a line across, such as zero of a difference. */
  readonly zero?: number;
}

export function Interval({ estimate, scale = UNIT_SCALE, zero }: IntervalProps): VNode {
  const at = (value: number) => `${(Math.min(1, Math.max(0, (value - scale.low) / (scale.high - scale.low))) * 100).toFixed(2)}%`;
  const low = estimate?.low ?? null;
  const high = estimate?.high ?? null;
  return (
    <span class="interval" aria-hidden="true">
      {zero !== undefined && <span class="interval-zero" style={{ left: at(zero) }} />}
      {low !== null && high !== null && <span class="interval-range" style={{ left: at(low), right: `calc(100% - ${at(high)})` }} />}
      {estimate !== null && <span class="interval-point" style={{ left: at(estimate.value) }} />}
    </span>
  );
}

/** Both ends; null if there is no interval. */
export function boundsText(estimate: Estimate | null, between: string): string | null {
  const { low = null, high = null } = estimate ?? {};
  return low === null || high === null ? null : `${formatReward(low)}${between}${formatReward(high)}`;
}

/** "0.120, 0.063 to 0.216", for tooltips and screen readers. */
export function intervalText(estimate: Estimate | null): string {
  if (estimate === null) return 'no finished rollout';
  const bounds = boundsText(estimate, ' to ');
  return `${formatReward(estimate.value)}, ${bounds === null ? 'no interval' : `95 % interval ${bounds}`}, n = ${estimate.n}`;
}
