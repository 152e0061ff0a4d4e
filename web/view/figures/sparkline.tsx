/** A small line of values by step. */
import type { VNode } from 'preact';

export interface SparklineProps {
  readonly curve: readonly { readonly step: number; readonly value: number }[];
  readonly label: string;
}

const WIDTH = 96;
const HEIGHT = 22;

export function Sparkline({ curve, label }: SparklineProps): VNode | null {
  if (curve.length < 2) return null;
  const steps = curve.map(({ step }) => step);
  const values = curve.map(({ value }) => value);
  const [first, last] = [Math.min(...steps), Math.max(...steps)];
  const [low, high] = [Math.min(0, ...values), Math.max(1, ...values)];
  const x = (step: number) => 2 + ((step - first) / (last - first || 1)) * (WIDTH - 6);
  const y = (value: number) => HEIGHT - 3 - ((value - low) / (high - low || 1)) * (HEIGHT - 6);
  const path = curve.map(({ step, value }, i) => `${i === 0 ? 'M' : 'L'}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join('');
  const end = curve.at(-1)!;
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      <path d={path} class="sparkline-line" />
      <circle cx={x(end.step)} cy={y(end.value)} r={2.2} class="sparkline-end" />
    </svg>
  );
}
