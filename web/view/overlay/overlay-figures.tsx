/** The runs of an overlay: the legend with the held-out reward of each, and the settings in which they differ. */
import type { VNode } from 'preact';
import { differingSettings } from '../../../src/core/setting-differences.ts';
import { letterOf } from '../compare/compare-figures.tsx';
import { boundsText, Interval, intervalText, type Scale, scaleOf } from '../figures/interval.tsx';
import { formatReward } from '../figures/numbers.ts';
import { formatRoute } from '../route/route.ts';
import { hrefOfRun } from '../runs/run-href.ts';
import { plainText } from '../text/marked-text.ts';
import { Label } from '../text/label.tsx';
import { Text } from '../text/text.tsx';
import { type HeldOutFigure, type HeldOutFigures, heldOutFigures, type OverlaidGroup, type OverlaidRun } from './overlay-data.ts';
import { RunSwatch } from './overlay-look.tsx';

export interface OverlayLegendProps {
  readonly groups: readonly OverlaidGroup[];
  readonly isHidden: (group: OverlaidGroup) => boolean;
  readonly toggle: (group: OverlaidGroup) => void;
}

export function OverlayLegend({ groups, isHidden, toggle }: OverlayLegendProps): VNode {
  const figures = groups.map(heldOutFigures);
  const scale = scaleOf(figures.flatMap(({ last, best }) => [last?.estimate ?? null, best?.estimate ?? null]));
  return (
    <div class="scrolls">
      <table class="small-table overlay-legend">
        <thead>
          <tr>
            <th scope="col">
              <span class="hidden">Shown</span>
            </th>
            <th scope="col">Run</th>
            <th scope="col">State</th>
            <th scope="col">Held out at the start</th>
            <th scope="col" colSpan={3}>
              Last held-out reward
            </th>
            <th scope="col" colSpan={2}>
              Best
            </th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group, i) => (
            <tr key={group.key} class={isHidden(group) ? 'is-hidden' : undefined}>
              <td>
                <input type="checkbox" checked={!isHidden(group)} onChange={() => toggle(group)} aria-label={plainText(`Show ${group.label}`)} />
              </td>
              <th scope="row">
                <RunSwatch index={i} /> <GroupName group={group} />
              </th>
              <td>
                <States runs={group.runs} />
              </td>
              <td class="number">{formatReward(figures[i]!.start?.estimate.value)}</td>
              <Figure figure={figures[i]!.last} scale={scale} />
              <Best figures={figures[i]!} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function GroupName({ group: { label, runs } }: { readonly group: OverlaidGroup }): VNode {
  if (runs.length === 1)
    return (
      <a href={hrefOfRun(runs[0]!.line)} title={plainText(runs[0]!.line.id)}>
        <Label text={label} />
      </a>
    );
  return (
    <>
      <Label text={label} />
      <small class="overlay-members">
        {runs.map(({ line, metrics: { settings } }) => (
          <a key={line.id} href={hrefOfRun(line)} title={plainText(line.id)}>
            seed {typeof settings['seed'] === 'number' ? settings['seed'] : '\u2013'}
          </a>
        ))}
      </small>
    </>
  );
}

/** What each run has to say: an error, that it has no metrics, or its state if it goes on. */
function States({ runs }: { readonly runs: readonly OverlaidRun[] }): VNode {
  const texts = runs.map(({ line, metrics: { lines, error, older, state } }) => {
    if (error !== null) return error.message;
    if (lines === null) return 'loading';
    if (lines.length === 0) return 'no metrics yet';
    const left = older === 0 ? '' : `, without ${older} earlier ${older === 1 ? 'evaluation' : 'evaluations'} of another setup`;
    return line.problems[0] ?? `${state ?? line.state}${left}`;
  });
  const isProblem = runs.some(({ line, metrics: { error } }) => error !== null || line.problems.length > 0);
  return (
    <span class={isProblem ? 'problem' : 'quiet-text'}>
      <Text text={[...new Set(texts)].join(', ')} />
    </span>
  );
}

function Figure({ figure, scale }: { readonly figure: HeldOutFigure | null; readonly scale: Scale }): VNode {
  const estimate = figure?.estimate ?? null;
  return (
    <>
      <td class="number" title={estimate === null ? 'no held-out reward' : intervalText(estimate)}>
        {formatReward(estimate?.value)}
        {figure !== null && <span class="quiet-text"> {stepsText(figure)}</span>}
      </td>
      <td class="compare-bar">
        <Interval estimate={estimate} scale={scale} />
      </td>
      <td class="quiet-text number">{boundsOf(figure)}</td>
    </>
  );
}

/** The start is not a version of the training, so it is never the best. */
function Best({ figures: { best, isStartBest } }: { readonly figures: HeldOutFigures }): VNode {
  if (isStartBest)
    return (
      <td class="quiet-text" colSpan={2}>
        none beat the start
      </td>
    );
  return (
    <>
      <td class="number">
        {formatReward(best?.estimate.value)}
        {best !== null && <span class="quiet-text"> {stepsText(best)}</span>}
      </td>
      <td class="quiet-text number">{boundsOf(best)}</td>
    </>
  );
}

/** Seeds that agree exactly show no spread. */
function boundsOf(figure: HeldOutFigure | null): string {
  const { estimate = null, runs = 0 } = figure ?? {};
  return boundsText(estimate, ' to ') ?? (runs > 1 ? 'seeds agree' : '\u2013');
}

function stepsText({ steps }: HeldOutFigure): string {
  return steps.length === 1 ? `step ${steps[0]}` : `steps ${steps[0]} to ${steps.at(-1)}`;
}

export function OverlaySettings({ groups }: { readonly groups: readonly OverlaidGroup[] }): VNode {
  const runs = groups.flatMap(({ runs: members }, group) => members.map((run) => ({ run, group })));
  const differing = differingSettings(runs.map(({ run }) => run.metrics.settings));
  if (differing.length === 0) return <p class="quiet-text">These runs have the same settings.</p>;
  return (
    <div class="scrolls">
      <table class="small-table overlay-settings">
        <thead>
          <tr>
            <th scope="col">Setting</th>
            {runs.map(({ run, group }) => (
              <th key={run.line.id} scope="col">
                <a href={formatRoute('settings', { run: run.line.id })} title={plainText(run.line.id)}>
                  {letterOf(group)}
                </a>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {differing.map(({ key, values }) => (
            <tr key={key}>
              <th scope="row">
                <Label text={key} />
              </th>
              {values.map((value, i) => (
                <td key={i}>{value === null ? <span class="quiet-text">unset</span> : <Text text={value} />}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
