/** The panel next to the transcript: reward, reference, metrics, error, further figures. */
import type { VNode } from 'preact';
import type { RolloutDetail } from '../../../src/viewing/view-wire.ts';
import { formatCount, formatDifference, formatNumber, formatReward } from '../figures/numbers.ts';
import { Facts } from '../run/facts.tsx';
import { plainText } from '../text/marked-text.ts';
import { LongText } from '../text/long-text.tsx';
import { Label } from '../text/label.tsx';
import { Text } from '../text/text.tsx';

export function Verdict({ detail }: { readonly detail: RolloutDetail }): VNode {
  const { line, error, advantage } = detail;
  return (
    <div class="verdict">
      <div class="verdict-reward">
        <span class="headline-name">Reward</span>
        <span class="headline-value">{line.reward === null ? 'failed' : formatReward(line.reward)}</span>
        {advantage !== null && (
          <span class="quiet-text">
            {detail.turn_advantages === null ? 'advantage' : 'mean advantage'} {formatDifference(advantage)}
          </span>
        )}
        <span class="quiet-text">
          <Label text={line.stop} />, {formatCount(line.turns)} {line.turns === 1 ? 'turn' : 'turns'}
          {line.tokens !== null && `, ${formatCount(line.tokens)} tokens`}
        </span>
      </div>
      {error !== null && (
        <div class="verdict-error" role="note">
          <strong>
            <Label text={error.name} />
          </strong>
          {error.phase !== null && (
            <>
              {' '}
              while <Text text={error.phase} />
            </>
          )}
          <p>
            <LongText text={error.message} />
          </p>
        </div>
      )}
      <Reference name="Reference" value={detail.answer} />
    </div>
  );
}

/** Details that are read after the transcript; they are below it on a narrow screen. */
export function Details({ detail }: { readonly detail: RolloutDetail }): VNode {
  return (
    <div class="details">
      <Metrics detail={detail} />
      {detail.facts.length > 0 && (
        <section>
          <h2>Figures</h2>
          <Facts facts={detail.facts} />
        </section>
      )}
      {detail.info !== null && (
        <details class="info">
          <summary>Row</summary>
          <Json value={detail.info} />
        </details>
      )}
    </div>
  );
}

function Reference({ name, value }: { readonly name: string; readonly value: unknown }): VNode | null {
  if (value === null || value === undefined || value === '') return null;
  return (
    <section>
      <h2>{name}</h2>
      {typeof value === 'string' ? (
        <div class="reference">
          <LongText text={value} />
        </div>
      ) : (
        <Json value={value} />
      )}
    </section>
  );
}

function Json({ value }: { readonly value: unknown }): VNode {
  return (
    <pre class="json">
      <LongText text={JSON.stringify(value, null, 2)} />
    </pre>
  );
}

function Metrics({ detail }: { readonly detail: RolloutDetail }): VNode | null {
  const metrics = Object.entries(detail.line.metrics);
  const problems = Object.entries(detail.metric_errors);
  if (metrics.length + problems.length === 0) return null;
  return (
    <section>
      <h2>Rewards and metrics</h2>
      <table class="small-table metrics">
        <tbody>
          {metrics.map(([name, value]) => (
            <tr key={name} class={value === 0 ? 'zero' : ''}>
              <th scope="row">
                <Label text={name} />
              </th>
              <td class="number">{formatNumber(value)}</td>
            </tr>
          ))}
          {problems.map(([name, problem]) => (
            <tr key={name} class="loud" title={plainText(problem)}>
              <th scope="row">
                <Label text={name} />
              </th>
              <td>
                <Text text={problem.slice(0, 300)} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
