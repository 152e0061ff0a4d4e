/** What to draw: the metrics and their smoothing, both in the address, for the curves of one run and of several. */
import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Menu } from '../frame/menu.tsx';
import { useKeys } from '../keys/keys.tsx';
import type { Route } from '../route/route.ts';
import { go, patched } from '../route/use-route.ts';
import { Label } from '../text/label.tsx';
import { ownValue } from '../text/own-value.ts';
import { Text } from '../text/text.tsx';
import { firstMetrics } from './curve-data.ts';

export interface ShownCurves {
  readonly metrics: readonly string[];
  /** False for the usual ones. */
  readonly isChosen: boolean;
  /** The weight of smoothing; 0: none. */
  readonly weight: number;
}

/** @param count The greatest number of metrics that are drawn if none are chosen. */
export function shownCurves({ params }: Route, names: readonly string[], count?: number): ShownCurves {
  const chosen = params.text('metrics')?.split(',');
  const metrics = chosen === undefined ? firstMetrics(names, count) : names.filter((name) => chosen.includes(name));
  return { metrics, isChosen: chosen !== undefined, weight: Math.min(0.99, Math.max(0, params.number('smooth') ?? 0)) };
}

export interface CurveControlsProps {
  readonly route: Route;
  readonly names: readonly string[];
  readonly shown: ShownCurves;
  readonly meanings: Readonly<Record<string, string>>;
  /** Further controls. */
  readonly children?: ComponentChildren;
}

export function CurveControls({ route, names, shown, meanings, children }: CurveControlsProps): VNode {
  const choose = (metrics: readonly string[]) => go(patched(route, { metrics: metrics.length === 0 ? '-' : metrics.join(',') }), true);
  return (
    <div class="filters-row curve-controls">
      <MetricMenu names={names} shown={shown.metrics} meanings={meanings} choose={choose} />
      {shown.isChosen && (
        <button type="button" class="button quiet" onClick={() => go(patched(route, { metrics: undefined }), true)}>
          The usual ones
        </button>
      )}
      {children}
      <label class="smooth">
        Smooth
        <input
          type="range"
          min={0}
          max={0.95}
          step={0.05}
          value={shown.weight}
          onInput={(event) => go(patched(route, { smooth: Number(event.currentTarget.value) || undefined }), true)}
        />
      </label>
      <span class="quiet-text curves-hint">Drag over a curve to zoom, double-click to zoom out.</span>
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
  const menu = document.querySelector<HTMLDetailsElement>('.curve-controls .menu');
  if (menu === null) return;
  menu.open = true;
  menu.querySelector('input')?.focus();
}

/** Metrics under a prefix have their meaning in the name. */
export function meaningOf(name: string, meanings: Readonly<Record<string, string>>): string | null {
  const meaning = ownValue(meanings, name);
  if (meaning !== undefined) return meaning;
  if (name.startsWith('rubric/')) return `Mean of the rubric's ${name.slice(7)} over finished rollouts.`;
  if (name.startsWith('reward/')) return `Mean reward of finished rollouts of ${name.slice(7)}.`;
  if (name.startsWith('loss/')) return `A figure of the loss ${name.slice(5)}.`;
  return null;
}
