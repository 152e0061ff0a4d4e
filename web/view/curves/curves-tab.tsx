/** The curves of a training run, live. The address holds the chosen metrics and the smoothing. */
import type { VNode } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { TrainingDetail } from '../../../src/viewing/view-wire.ts';
import { Menu } from '../frame/menu.tsx';
import { EmptyState, LoadingState, ProblemState } from '../frame/states.tsx';
import { useKeys } from '../keys/keys.tsx';
import type { Route } from '../route/route.ts';
import { go, patched } from '../route/use-route.ts';
import { Label } from '../text/label.tsx';
import { ownValue } from '../text/own-value.ts';
import { Text } from '../text/text.tsx';
import { CurveCard } from './curve-card.tsx';
import { firstMetrics, metricNames } from './curve-data.ts';
import { useMetrics } from './use-metrics.ts';

export function CurvesTab({ detail, route }: { readonly detail: TrainingDetail; readonly route: Route }): VNode {
  const { lines, meanings, error } = useMetrics(detail.run.id);
  const names = useMemo(() => metricNames(lines ?? []), [lines]);
  const chosen = route.params.text('metrics')?.split(',');
  const shown = chosen === undefined ? firstMetrics(names) : names.filter((name) => chosen.includes(name));
  const weight = Math.min(0.99, Math.max(0, route.params.number('smooth') ?? 0));
  const choose = (metrics: readonly string[]) => go(patched(route, { metrics: metrics.length === 0 ? '-' : metrics.join(',') }), true);
  if (lines === null) return error === null ? <LoadingState what="metrics" /> : <ProblemState problem={error.message} />;
  if (lines.length === 0)
    return (
      <EmptyState title="No metrics yet">
        <p>The first evaluation or step brings them; this page shows them by itself.</p>
      </EmptyState>
    );
  return (
    <div class="curves-tab">
      <div class="filters-row">
        <MetricMenu names={names} shown={shown} meanings={meanings} choose={choose} />
        {chosen !== undefined && (
          <button type="button" class="button quiet" onClick={() => go(patched(route, { metrics: undefined }), true)}>
            The usual ones
          </button>
        )}
        <label class="smooth">
          Smooth
          <input
            type="range"
            min={0}
            max={0.95}
            step={0.05}
            value={weight}
            onInput={(event) => go(patched(route, { smooth: Number(event.currentTarget.value) || undefined }), true)}
          />
        </label>
        <span class="quiet-text curves-hint">Drag over a curve to zoom, double-click to zoom out.</span>
        {error !== null && (
          <span class="problem" role="alert">
            <Text text={error.message} />
          </span>
        )}
      </div>
      <div class="curves">
        {shown.map((name) => (
          <CurveCard key={name} metric={name} lines={lines} meaning={meaningOf(name, meanings)} weight={weight} />
        ))}
      </div>
    </div>
  );
}

interface MetricMenuProps {
  readonly names: readonly string[];
  readonly shown: readonly string[];
  readonly meanings: Readonly<Record<string, string>>;
  readonly choose: (metrics: readonly string[]) => void;
}

function MetricMenu({ names, shown, meanings, choose }: MetricMenuProps): VNode {
  const [text, setText] = useState('');
  const found = names.filter((name) => name.toLowerCase().includes(text.toLowerCase()));
  useKeys([{ keys: ['/'], does: 'Choose metrics', run: openMenu }]);
  return (
    <Menu title={`Metrics, ${shown.length} of ${names.length}`} wide>
      <input
        type="search"
        class="input menu-filter"
        placeholder="Filter"
        aria-label="Filter metrics"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {found.map((name) => (
        <label key={name} class="menu-item">
          <input
            type="checkbox"
            checked={shown.includes(name)}
            onChange={() => choose(shown.includes(name) ? shown.filter((one) => one !== name) : [...shown, name])}
          />
          <span>
            <Label text={name} />
            <small>
              <Text text={meaningOf(name, meanings) ?? ''} />
            </small>
          </span>
        </label>
      ))}
      {found.length === 0 && <p class="quiet-text">No metric has this in its name.</p>}
    </Menu>
  );
}

function openMenu(): void {
  const menu = document.querySelector<HTMLDetailsElement>('.curves-tab .menu');
  if (menu === null) return;
  menu.open = true;
  menu.querySelector('input')?.focus();
}

/** Metrics under a prefix have their meaning in the name. */
function meaningOf(name: string, meanings: Readonly<Record<string, string>>): string | null {
  const meaning = ownValue(meanings, name);
  if (meaning !== undefined) return meaning;
  if (name.startsWith('rubric/')) return `Mean of the rubric's ${name.slice(7)} over finished rollouts.`;
  if (name.startsWith('reward/')) return `Mean reward of finished rollouts of ${name.slice(7)}.`;
  if (name.startsWith('loss/')) return `A figure of the loss ${name.slice(5)}.`;
  return null;
}
