/** Names of places for the line at the top, and the place above each. */
import type { RunLine } from '../../../src/viewing/view-wire.ts';
import { formatRoute, type Route } from '../route/route.ts';

export interface Crumb {
  readonly text: string;
  /** Shown for the pointer. @default text */
  readonly title?: string;
  /** Null for the current place. */
  readonly href: string | null;
}

const HOME = formatRoute('runs');

/** @param line of the run that the address names; null while the list loads */
export function crumbsOf(route: Route, line: Pick<RunLine, 'name' | 'differs'> | null): Crumb[] {
  const run = route.params.text('run');
  const home = { text: 'vf-view', href: route.screen === 'runs' ? null : HOME };
  if (route.screen === 'compare') return [home, { text: 'Comparison', href: null }];
  if (run === undefined || route.screen === 'runs') return [home];
  const named = { text: nameOf(line) ?? (run === '.' ? 'This run' : run), title: run };
  if (route.screen !== 'rollout') return [home, { ...named, href: null }];
  const place = `${route.params.text('group') ?? ''} / ${route.params.text('index') ?? ''}`;
  return [home, { ...named, href: tableOf(route) }, { text: place, href: null }];
}

/** Of the page, for a tab that shows only its beginning: the innermost place first. */
export function titleOf(crumbs: readonly Crumb[]): string {
  return crumbs
    .map(({ text }) => text)
    .toReversed()
    .join(' · ');
}

/** The run's name, with the settings that tell it from others of the same name; null without a name. */
function nameOf(line: Pick<RunLine, 'name' | 'differs'> | null): string | null {
  if (line === null || line.name === null) return null;
  return line.differs === '' ? line.name : `${line.name} (${line.differs})`;
}

/** The table, with its filters, from which a rollout was opened. */
function tableOf(route: Route): string {
  return formatRoute('rollouts', { ...route.params.record, group: route.params.text('of'), of: undefined, index: undefined });
}

export function upFrom(route: Route): string {
  if (route.screen === 'rollout') return tableOf(route);
  return HOME;
}
