/** The route that the address shows, and the ways to change it. */
import { useEffect, useState } from 'preact/hooks';
import { formatRoute, type ParamValue, parseRoute, type Route, type Screen } from './route.ts';

/** The browser reports a new fragment later; a second key may come before. */
const MOVED = 'routemoved';

export function useRoute(): Route {
  const [fragment, setFragment] = useState(location.hash);
  useEffect(() => {
    const listen = () => setFragment(location.hash);
    addEventListener('hashchange', listen);
    addEventListener(MOVED, listen);
    listen();
    return () => {
      removeEventListener('hashchange', listen);
      removeEventListener(MOVED, listen);
    };
  }, []);
  return parseRoute(fragment);
}

export type Patch = Readonly<Record<string, ParamValue>>;

/** Goes to a fragment. `replace` leaves no entry to go back to, for parameters that change with every key. */
export function go(fragment: string, replace = false): void {
  if (replace) location.replace(fragment);
  else location.hash = fragment;
  dispatchEvent(new Event(MOVED));
}

/** The fragment of the same screen with some parameters changed; undefined removes one. */
export function patched(route: Route, patch: Patch, screen: Screen = route.screen): string {
  return formatRoute(screen, { ...route.params.record, ...patch });
}
