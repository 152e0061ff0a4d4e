/** The look of a run among others: its letter, its colour, and dashes once the colours are used up. */
import type { VNode } from 'preact';
import { letterOf } from '../compare/compare-figures.tsx';
import { RUN_COLOURS } from '../curves/use-curve-plot.tsx';

/** Pixels of strokes and gaps. */
const DASHES: readonly (readonly number[])[] = [[], [7, 4], [2, 3]];

/** More runs than colours times dashes could not be told apart. */
export const MOST_RUNS = RUN_COLOURS * DASHES.length;

export function colourOf(index: number): string {
  return `run-${index % RUN_COLOURS}`;
}

export function dashOf(index: number): readonly number[] {
  return DASHES[Math.floor(index / RUN_COLOURS) % DASHES.length]!;
}

export function RunSwatch({ index }: { readonly index: number }): VNode {
  return (
    <span class="run-swatch">
      <span class="letter">{letterOf(index)}</span>
      <svg class={`colour-${colourOf(index)}`} viewBox="0 0 24 8" width="24" height="8" aria-hidden="true">
        <line x1="0" y1="4" x2="24" y2="4" stroke="currentColor" stroke-width="2.5" stroke-dasharray={dashOf(index).join(' ') || undefined} />
      </svg>
    </span>
  );
}
