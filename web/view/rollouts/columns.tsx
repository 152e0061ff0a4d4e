/** The contents of the table's columns. Widths are fixed, so that headings and rows line up without measuring. */
import type { ComponentChildren, VNode } from 'preact';
import type { RolloutLine } from '../../../src/viewing/view-wire.ts';
import { formatCount, formatNumber, formatReward } from '../figures/numbers.ts';
import { Label } from '../text/label.tsx';
import { ownValue } from '../text/own-value.ts';
import { Text } from '../text/text.tsx';

export interface Column {
  /** The key by which the server sorts; null if it cannot sort by this column. */
  readonly sort: string | null;
  readonly title: string;
  /** The width in rem; for the column that grows, its least width. */
  readonly width: number;
  readonly grows?: boolean;
  readonly isNumber: boolean;
  readonly cell: (line: RolloutLine) => ComponentChildren;
}

export function trackOf({ width, grows = false }: Column): string {
  return grows ? `minmax(${width}rem, 1fr)` : `${width}rem`;
}

/** Columns that every set has; the metrics follow. */
export function columnsOf(metrics: readonly string[], hasTasks: boolean): Column[] {
  const task: Column = {
    sort: null,
    title: 'task',
    width: 8,
    isNumber: false,
    cell: ({ task: name }) => name !== null && <Label text={name} />,
  };
  return [
    {
      sort: null,
      title: 'question',
      width: 16,
      grows: true,
      isNumber: false,
      cell: ({ question, group }) => <Text text={question === '' ? group : question} />,
    },
    { sort: 'reward', title: 'reward', width: 7.5, isNumber: true, cell: (line) => <Reward line={line} /> },
    { sort: 'turns', title: 'turns', width: 4, isNumber: true, cell: ({ turns }) => formatCount(turns) },
    { sort: 'tokens', title: 'tokens', width: 5, isNumber: true, cell: ({ tokens }) => (tokens === null ? '\u2013' : formatCount(tokens)) },
    ...metrics.map((name): Column => ({
      sort: `metric:${name}`,
      title: name,
      width: Math.min(14, Math.max(5, 1.9 + name.length * 0.56)),
      isNumber: true,
      cell: ({ metrics: all }) => formatNumber(ownValue(all, name)),
    })),
    { sort: null, title: 'ended by', width: 9, isNumber: false, cell: ({ stop, error }) => <Label text={error ?? stop} /> },
    ...(hasTasks ? [task] : []),
    { sort: 'id', title: 'id', width: 11, isNumber: false, cell: ({ rollout_id: id }) => <Text text={id} /> },
  ];
}

function Reward({ line }: { readonly line: RolloutLine }): VNode {
  if (line.reward === null) return <span class="failed-mark">failed</span>;
  const share = Math.min(1, Math.max(0, line.reward));
  return (
    <>
      <span class="reward-bar" aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </span>
      {formatReward(line.reward)}
    </>
  );
}
