/** Runs as rows of a table; on a narrow screen each is a card. */
import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { RunLine } from '../../../src/viewing/view-wire.ts';
import { Interval, intervalText } from '../figures/interval.tsx';
import { formatAgo, formatReward, formatTime, formatUsd } from '../figures/numbers.ts';
import { Sparkline } from '../figures/sparkline.tsx';
import { plainText } from '../text/marked-text.ts';
import { Label } from '../text/label.tsx';
import { Text } from '../text/text.tsx';
import { hrefOfRun } from './run-href.ts';
import { modelName } from './model-name.ts';
import { RunState } from './run-state.tsx';

export interface RunsTableProps {
  readonly runs: readonly RunLine[];
  readonly cursor: number;
  readonly picked: readonly string[];
  readonly pick: (id: string) => void;
}

export function RunsTable({ runs, cursor, picked, pick }: RunsTableProps): VNode {
  const now = Date.now();
  const hasCosts = runs.some(({ cost }) => cost !== null);
  return (
    <table class="runs">
      <thead>
        <tr>
          <th scope="col">
            <span class="hidden">Select</span>
          </th>
          <th scope="col">Run</th>
          <th scope="col">State</th>
          <th scope="col" class="number">
            Reward
          </th>
          {hasCosts && (
            <th scope="col" class="number">
              Cost
            </th>
          )}
          <th scope="col">Over training</th>
          <th scope="col" class="number">
            Updated
          </th>
        </tr>
      </thead>
      <tbody>
        {runs.map((run, i) => (
          <RunRow key={run.id} run={run} hasCosts={hasCosts} now={now} isAt={i === cursor} isPicked={picked.includes(run.id)} pick={pick} />
        ))}
      </tbody>
    </table>
  );
}

interface RunRowProps {
  readonly run: RunLine;
  /** Some run of the table has a cost. */
  readonly hasCosts: boolean;
  readonly now: number;
  readonly isAt: boolean;
  readonly isPicked: boolean;
  readonly pick: (id: string) => void;
}

function RunRow({ run, hasCosts, now, isAt, isPicked, pick }: RunRowProps): VNode {
  const row = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    if (isAt) row.current?.scrollIntoView({ block: 'nearest' });
  }, [isAt]);
  const name = plainText(run.name ?? `${run.environment}, ${run.model}`);
  return (
    <tr ref={row} class={isAt ? 'at' : ''} aria-current={isAt ? 'true' : undefined}>
      <td class="runs-pick">
        <input type="checkbox" checked={isPicked} onChange={() => pick(run.id)} aria-label={`Select ${name} for a comparison`} />
      </td>
      <td class="runs-name">
        <a href={hrefOfRun(run)}>
          <strong>
            <Label text={run.name ?? run.environment} />
          </strong>
          <span class="runs-model">
            <Label text={run.name === null ? modelName(run.model) : `${run.environment}, ${modelName(run.model)}`} />
          </span>
        </a>
        <small>
          {run.kind} <Text text={run.id} />
        </small>
        {run.differs !== '' && (
          <small class="runs-differs">
            <Label text={run.differs} />
          </small>
        )}
        {run.problems.length > 0 && (
          <small class="problem">
            <Text text={run.problems.length === 1 ? run.problems[0]! : `${run.problems[0]} ${run.problems.length - 1} more on its page.`} />
          </small>
        )}
      </td>
      <td class="runs-state">
        <RunState run={run} />
      </td>
      <td class="runs-reward number" title={intervalText(run.reward)}>
        {run.reward !== null && (
          <>
            <Interval estimate={run.reward} />
            <span>{formatReward(run.reward.value)}</span>
          </>
        )}
      </td>
      {hasCosts && <td class="runs-cost number">{run.cost !== null && formatUsd(run.cost)}</td>}
      <td class="runs-curve">
        <Sparkline
          curve={run.curve}
          label={`Held-out reward from ${formatReward(run.curve[0]?.value)} to ${formatReward(run.curve.at(-1)?.value)}`}
        />
      </td>
      <td class="runs-time number" title={formatTime(run.updated_at)}>
        {formatAgo(run.updated_at, now)}
      </td>
    </tr>
  );
}
