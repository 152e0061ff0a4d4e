/** The figures of an evaluation, with their intervals. */
import type { VNode } from 'preact';
import type { Estimate, EvaluationDetail } from '../../../src/viewing/view-wire.ts';
import { EmptyState } from '../frame/states.tsx';
import { boundsText, Interval, intervalText, scaleOf } from '../figures/interval.tsx';
import { formatCount, formatReward, formatSeconds, formatUsd } from '../figures/numbers.ts';
import { formatRoute } from '../route/route.ts';
import { Label } from '../text/label.tsx';
import { Text } from '../text/text.tsx';
import { Facts } from './facts.tsx';
import { PassTable, RolesTable } from './summary-tables.tsx';
import { readSummary, type Summary } from './summary.ts';

export function SummaryTab({ detail }: { readonly detail: EvaluationDetail }): VNode {
  const summary = readSummary(detail);
  if (summary === null)
    return (
      <EmptyState title="Nothing recorded yet">
        <p>The first rollout that ends brings the figures.</p>
      </EmptyState>
    );
  return (
    <div class="summary">
      <section class="summary-main">
        <Headline summary={summary} />
        <Estimates summary={summary} />
        {summary.notices.map((notice, i) => (
          <p class="notice" key={i}>
            <Text text={notice} />
          </p>
        ))}
      </section>
      <div class="summary-side">
        <Stops summary={summary} run={detail.run.id} />
        <Counted
          title="Failed with"
          counted={summary.errors}
          href={formatRoute('rollouts', { run: detail.run.id, set: 'results', failed: 'true' })}
        />
        <Counted
          title="Forks"
          counted={summary.forks}
          remark={`${formatCount(summary.forked ?? 0)} ${summary.forked === 1 ? 'rollout is' : 'rollouts are'} several sequences. The first of each kind:`}
        />
        <Counted
          title="Requests"
          counted={summary.requests}
          remark="Requests of agents that were the same as an earlier one and got its answer, or that could not be honoured:"
        />
        <PassTable summary={summary} />
        <RolesTable roles={summary.roles} />
        <section>
          <h2>Settings</h2>
          <Facts facts={detail.facts} />
        </section>
      </div>
    </div>
  );
}

function Headline({ summary }: { readonly summary: Summary }): VNode {
  const { reward, rollouts, examples, rolloutsPerExample, tokens, seconds, cost } = summary;
  return (
    <div class="headline">
      <div class="headline-reward" title={intervalText(reward)}>
        <span class="headline-name">Mean reward</span>
        <span class="headline-value">{formatReward(reward?.value)}</span>
        <span class="headline-range">{boundsText(reward, ' to ') ?? 'no interval'}</span>
        <Interval estimate={reward} scale={scaleOf([reward])} />
      </div>
      <dl class="headline-facts">
        <Figure name="finished" value={formatCount(rollouts.finished)} />
        <Figure name="failed" value={formatCount(rollouts.errored)} isLoud={rollouts.errored > 0} />
        {examples !== null && (
          <Figure name="rows" value={`${formatCount(examples)}${rolloutsPerExample === null ? '' : ` × ${rolloutsPerExample}`}`} />
        )}
        {tokens.map(({ name, value }) => (
          <Figure key={name} name={name} value={formatCount(value)} />
        ))}
        {cost !== null && <Figure name="cost" value={formatUsd(cost)} />}
        {seconds !== null && <Figure name="time" value={formatSeconds(seconds)} />}
      </dl>
    </div>
  );
}

function Figure({ name, value, isLoud = false }: { readonly name: string; readonly value: string; readonly isLoud?: boolean }): VNode {
  return (
    <div class={isLoud ? 'loud' : ''}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Estimates({ summary }: { readonly summary: Summary }): VNode {
  return (
    <table class="estimates">
      <thead>
        <tr>
          <th scope="col">Figure</th>
          <th scope="col" class="number">
            Mean
          </th>
          <th scope="col">95 % interval</th>
          <th scope="col" class="number">
            <span class="hidden">Bounds</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {summary.estimates.map(({ name, estimate }) => (
          <EstimateRow key={name} name={name} estimate={estimate} />
        ))}
      </tbody>
    </table>
  );
}

function EstimateRow({ name, estimate }: { readonly name: string; readonly estimate: Estimate | null }): VNode {
  const scale = scaleOf([estimate]);
  return (
    <tr title={intervalText(estimate)}>
      <th scope="row">
        <Label text={name} />
      </th>
      <td class="number">{formatReward(estimate?.value)}</td>
      <td class="estimates-bar">
        <Interval estimate={estimate} scale={scale} />
        {Math.abs(scale.high - 1) > 0.0005 && <span class="estimates-scale">to {formatReward(scale.high)}</span>}
      </td>
      <td class="number quiet-text">{boundsText(estimate, ' \u2013 ') ?? '\u2013'}</td>
    </tr>
  );
}

function Stops({ summary, run }: { readonly summary: Summary; readonly run: string }): VNode {
  const most = Math.max(1, ...summary.stops.map(([, count]) => count));
  return (
    <section>
      <h2>Ended by</h2>
      <ul class="counts">
        {summary.stops.map(([stop, count]) => (
          <li key={stop}>
            <a href={formatRoute('rollouts', { run, set: 'results', stop })}>
              <Label text={stop} />
            </a>
            <span class="count-bar">
              <span style={{ width: `${(count / most) * 100}%` }} />
            </span>
            <span class="number">{formatCount(count)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface CountedProps {
  readonly title: string;
  readonly counted: Summary['errors'];
  /** Shows the rollouts; the names are no links without it. */
  readonly href?: string;
  readonly remark?: string;
}

/** Names with their counts and an example of each. */
function Counted({ title, counted, href, remark }: CountedProps): VNode | null {
  if (counted.length === 0) return null;
  return (
    <section>
      <h2>{title}</h2>
      {remark !== undefined && <p class="quiet-text">{remark}</p>}
      <ul class="errors">
        {counted.map(({ name, count, example }) => (
          <li key={name}>
            {href === undefined ? (
              <Label text={name} />
            ) : (
              <a href={href}>
                <Label text={name} />
              </a>
            )}{' '}
            <span class="number">{formatCount(count)}</span>
            {example !== null && (
              <p>
                <Text text={example.slice(0, 400)} />
              </p>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
