/** Figures of a comparison: each set's mean on one scale, and its difference from the first. */
import type { VNode } from 'preact';
import type { Comparison, Estimate } from '../../../src/viewing/view-wire.ts';
import { boundsText, Interval, intervalText, type Scale, scaleOf } from '../figures/interval.tsx';
import { formatCount, formatDifference, formatReward } from '../figures/numbers.ts';
import { formatRoute, type Route } from '../route/route.ts';
import { patched } from '../route/use-route.ts';
import { plainText } from '../text/marked-text.ts';
import { Text } from '../text/text.tsx';

/** A, B, C and so on: letters distinguish the sets, and colours only support them. */
export function letterOf(index: number): string {
  return String.fromCodePoint(65 + index);
}

/** The run by its name or the settings that differ, else by the end of its path, its most telling part. */
export function SetName({ set }: { readonly set: Comparison['sets'][number] }): VNode {
  const name = set.label === '' ? set.run.split('/').slice(-2).join('/') : set.label;
  return (
    <span title={plainText(`${set.run}, ${set.title}`)}>
      <Text text={set.set === 'results' ? name : `${name}, ${set.title}`} />
    </span>
  );
}

export function CompareFigures({ comparison, route }: { readonly comparison: Comparison; readonly route: Route }): VNode {
  const { sets, differences, shared, partial, differing } = comparison;
  const scale = scaleOf(sets.map(({ reward }) => reward));
  const around = aroundZero(differences.map(({ mean }) => mean));
  const first = (index: number) => {
    const ordered = [sets[index]!, ...sets.filter((_, i) => i !== index)];
    return patched(route, { run: undefined, group: undefined, set: ordered.map(({ run, set }) => `${run}:${set}`) });
  };
  return (
    <section>
      <div class="scrolls">
        <table class="small-table compare-figures">
          <thead>
            <tr>
              <th scope="col">Set</th>
              <th scope="col" colSpan={2}>
                Mean reward
              </th>
              <th scope="col" colSpan={3}>
                Difference from A on shared rows
              </th>
              <th scope="col">Rows won, tied, lost against A</th>
            </tr>
          </thead>
          <tbody>
            {sets.map((set, i) => (
              <tr key={i}>
                <th scope="row">
                  <span class={`letter l${i}`}>{letterOf(i)}</span>{' '}
                  <a href={formatRoute('rollouts', { run: set.run, set: set.set })}>
                    <SetName set={set} />
                  </a>
                  {i > 0 && (
                    <a class="make-first" href={first(i)} title="Compare the others with this one">
                      as A
                    </a>
                  )}
                </th>
                <td class="number" title={intervalText(set.reward)}>
                  {formatReward(set.reward?.value)}
                </td>
                <td class="compare-bar">
                  <Interval estimate={set.reward} scale={scale} />
                </td>
                <Difference difference={differences[i - 1]} around={around} />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="quiet-text">
        {formatCount(shared)} rows that all have{partial > 0 && `; ${formatCount(partial)} that only some have are left out`}.
        {differing > 0 && ` ${formatCount(differing)} ${differing === 1 ? 'id stands' : 'ids stand'} for different questions and cannot be paired.`}
      </p>
    </section>
  );
}

function Difference({ difference, around }: { readonly difference: Comparison['differences'][number] | undefined; readonly around: Scale }): VNode {
  if (difference === undefined) return <td colSpan={4} class="quiet-text" />;
  const { mean, won, tied, lost, notComparable } = difference;
  if (notComparable !== null)
    return (
      <td colSpan={4} class="quiet-text">
        not comparable: {notComparable}
      </td>
    );
  const isSure = mean !== null && mean.low !== null && mean.high !== null && (mean.low > 0 || mean.high < 0);
  return (
    <>
      <td class={isSure ? 'number sure' : 'number'} title={intervalText(mean)}>
        {formatDifference(mean?.value ?? null)}
      </td>
      <td class="compare-bar">
        <Interval estimate={mean} scale={around} zero={0} />
      </td>
      <td class="quiet-text number">{boundsText(mean, ' to ') ?? '\u2013'}</td>
      <td>
        <span class="wins" role="img" aria-label={`${won} won, ${tied} tied, ${lost} lost`}>
          <span class="won" style={{ flexGrow: String(won) }} />
          <span class="tied" style={{ flexGrow: String(tied) }} />
          <span class="lost" style={{ flexGrow: String(lost) }} />
        </span>{' '}
        {formatCount(won)}, {formatCount(tied)}, {formatCount(lost)}
      </td>
    </>
  );
}

function aroundZero(estimates: readonly (Estimate | null)[]): Scale {
  const reach = Math.max(0.05, ...estimates.flatMap((e) => (e === null ? [] : [e.value, e.low ?? 0, e.high ?? 0].map(Math.abs))));
  return { low: -reach, high: reach };
}
