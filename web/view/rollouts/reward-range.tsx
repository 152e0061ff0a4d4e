/** Filters by reward: a histogram to drag over, and two numbers for the keyboard. */
import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { RolloutPage, RolloutQuery } from '../../../src/viewing/view-wire.ts';
import { Menu } from '../frame/menu.tsx';
import { formatCount, formatNumber } from '../figures/numbers.ts';
import { useSource } from '../source/source-context.ts';
import { useLoaded } from '../source/use-loaded.ts';

export interface RewardRangeProps {
  readonly query: RolloutQuery;
  readonly page: RolloutPage | null;
  readonly choose: (min: number | undefined, max: number | undefined) => void;
}

type Histogram = NonNullable<RolloutPage['histogram']>;

export function RewardRange({ query, page, choose }: RewardRangeProps): VNode | null {
  const source = useSource();
  const { min_reward: min, max_reward: max, ...rest } = query;
  const isInForce = min !== undefined || max !== undefined;
  // The bars outside the range stay, so that it can be widened.
  const wide = useLoaded(isInForce ? `histogram ${JSON.stringify(rest)}` : null, () => source.rollouts({ ...rest, from: 0, count: 1 }));
  const histogram = (isInForce ? wide.value : page)?.histogram ?? null;
  if (histogram === null && !isInForce) return null;
  const type = (value: string) => (value === '' || Number.isNaN(Number(value)) ? undefined : Number(value));
  return (
    <>
      {histogram !== null && <Bars histogram={histogram} min={min} max={max} choose={choose} />}
      <Menu title="Reward">
        <form class="range" onSubmit={(event) => event.preventDefault()}>
          <label>
            at least
            <input type="number" step="any" class="input" value={min ?? ''} onChange={(event) => choose(type(event.currentTarget.value), max)} />
          </label>
          <label>
            at most
            <input type="number" step="any" class="input" value={max ?? ''} onChange={(event) => choose(min, type(event.currentTarget.value))} />
          </label>
        </form>
      </Menu>
    </>
  );
}

interface BarsProps {
  readonly histogram: Histogram;
  readonly min: number | undefined;
  readonly max: number | undefined;
  readonly choose: RewardRangeProps['choose'];
}

function Bars({ histogram, min, max, choose }: BarsProps): VNode {
  const frame = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<readonly [number, number] | null>(null);
  const { low, high, counts } = histogram;
  const width = (high - low) / counts.length;
  const edge = (bin: number) => Number((low + bin * width).toPrecision(6));
  const most = Math.max(1, ...counts);
  const binAt = (event: PointerEvent) => {
    const box = frame.current!.getBoundingClientRect();
    return Math.min(counts.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * counts.length)));
  };
  const isIn = (bin: number) => {
    if (drag !== null) return bin >= Math.min(...drag) && bin <= Math.max(...drag);
    return (min === undefined || edge(bin + 1) > min || (bin === counts.length - 1 && high >= min)) && (max === undefined || edge(bin) <= max);
  };
  const take = () => {
    if (drag === null) return;
    const [from, to] = [Math.min(...drag), Math.max(...drag)];
    setDrag(null);
    choose(from === 0 ? undefined : edge(from), to === counts.length - 1 ? undefined : edge(to + 1));
  };
  return (
    <div
      ref={frame}
      class="histogram"
      role="img"
      aria-label={`Rewards from ${formatNumber(low)} to ${formatNumber(high)}: ${counts.map(formatCount).join(', ')}`}
      title={`Rewards ${formatNumber(low)} to ${formatNumber(high)}. Drag to filter.`}
      onPointerDown={(event) => {
        frame.current!.setPointerCapture(event.pointerId);
        setDrag([binAt(event), binAt(event)]);
      }}
      onPointerMove={(event) => drag !== null && setDrag([drag[0], binAt(event)])}
      onPointerUp={take}
      onPointerCancel={() => setDrag(null)}
    >
      {counts.map((count, bin) => (
        <span key={bin} class={isIn(bin) ? 'in' : ''} style={{ height: count === 0 ? '1px' : `${8 + 92 * (count / most)}%` }} />
      ))}
    </div>
  );
}
