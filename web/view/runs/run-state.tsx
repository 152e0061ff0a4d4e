/** The state of a run, and its progress. */
import type { VNode } from 'preact';
import type { RunLine } from '../../../src/viewing/view-wire.ts';
import { formatCount } from '../figures/numbers.ts';

const NAMES: Readonly<Record<RunLine['state'], string>> = { complete: 'complete', running: 'running', stopped: 'stopped' };

export function RunState({ run }: { readonly run: RunLine }): VNode {
  const unit = `${run.kind === 'training' ? 'step' : 'rollout'}${(run.planned ?? run.done) === 1 ? '' : 's'}`;
  const planned = run.planned === null || run.planned === run.done ? '' : ` of ${formatCount(run.planned)}`;
  return (
    <span class={`run-state ${run.state}`}>
      <span class="run-state-name">{NAMES[run.state]}</span>
      <span class="run-state-done">
        {formatCount(run.done)}
        {planned} {unit}
        {run.failed > 0 && `, ${formatCount(run.failed)} failed`}
      </span>
      {run.state !== 'complete' && run.planned !== null && run.planned > 0 && (
        <progress max={run.planned} value={run.done} aria-label={`${formatCount(run.done)} of ${formatCount(run.planned)} ${unit}`} />
      )}
    </span>
  );
}
