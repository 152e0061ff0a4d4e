/** The settings with which a run was started. */
import type { VNode } from 'preact';
import type { RunDetail } from '../../../src/viewing/view-wire.ts';
import { formatTime } from '../figures/numbers.ts';
import { Facts } from './facts.tsx';

export function SettingsTab({ detail }: { readonly detail: RunDetail }): VNode {
  const { run, facts } = detail;
  const times = [
    { name: 'folder', value: run.id },
    { name: 'started', value: formatTime(run.started_at) },
    { name: 'updated', value: formatTime(run.updated_at) },
  ];
  return <Facts facts={[...facts, ...times]} />;
}
