/** Names of places for the line at the top, and the place above each. */
import { formatRoute, type Route } from '../route/route.ts';
import { patched } from '../route/use-route.ts';
import type { Crumb } from './header.tsx';

const HOME = formatRoute('runs');

export function crumbsOf(route: Route): Crumb[] {
  const run = route.params.text('run');
  const home = { text: 'vf-view', href: route.screen === 'runs' ? null : HOME };
  if (route.screen === 'compare') return [home, { text: 'Comparison', href: null }];
  if (run === undefined || route.screen === 'runs') return [home];
  const name = run === '.' ? 'This run' : run;
  if (route.screen !== 'rollout') return [home, { text: name, href: null }];
  const place = `${route.params.text('group') ?? ''} / ${route.params.text('index') ?? ''}`;
  return [home, { text: name, href: tableOf(route) }, { text: place, href: null }];
}

/** The table, with its filters, from which a rollout was opened. */
function tableOf(route: Route): string {
  return patched(route, { group: route.params.text('of'), of: undefined, index: undefined }, 'rollouts');
}

export function upFrom(route: Route): string {
  if (route.screen === 'rollout') return tableOf(route);
  return HOME;
}
