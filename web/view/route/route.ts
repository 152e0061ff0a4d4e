/** The place in the page: a screen and its parameters, all in the fragment of the URL (`#/rollouts?run=...&sort=-reward`), so that every view has a link. */

export type Screen = 'runs' | 'run' | 'settings' | 'rollouts' | 'rollout' | 'curves' | 'steps' | 'held-out' | 'events' | 'compare';

const SCREENS: ReadonlySet<string> = new Set<Screen>([
  'runs',
  'run',
  'settings',
  'rollouts',
  'rollout',
  'curves',
  'steps',
  'held-out',
  'events',
  'compare',
]);

export interface Route {
  readonly screen: Screen;
  readonly params: Params;
}

/** Parameters by name; one name can have several values. */
export class Params {
  readonly #values: URLSearchParams;

  constructor(query: string) {
    this.#values = new URLSearchParams(query);
  }

  text(name: string): string | undefined {
    const value = this.#values.get(name);
    return value === null || value === '' ? undefined : value;
  }

  number(name: string): number | undefined {
    const value = Number(this.text(name) ?? Number.NaN);
    return Number.isFinite(value) ? value : undefined;
  }

  all(name: string): string[] {
    return this.#values.getAll(name).filter((value) => value !== '');
  }

  /** All of them, for a link that changes some. */
  get record(): Record<string, readonly string[]> {
    return Object.fromEntries([...new Set(this.#values.keys())].map((name) => [name, this.all(name)]));
  }
}

export type ParamValue = string | number | readonly string[] | undefined;

export function parseRoute(fragment: string): Route {
  const found = /^#?\/?([^?]*)(?:\?(.*))?$/s.exec(fragment);
  const name = found?.[1] ?? '';
  return { screen: SCREENS.has(name) ? (name as Screen) : 'runs', params: new Params(found?.[2] ?? '') };
}

/** The fragment of a screen. Parameters without a value are left out. */
export function formatRoute(screen: Screen, params: Readonly<Record<string, ParamValue>> = {}): string {
  const parts: string[] = [];
  for (const [name, value] of Object.entries(params)) {
    const values = value === undefined || value === '' ? [] : typeof value === 'object' ? value : [String(value)];
    for (const one of values) parts.push(`${escape(name)}=${escape(one)}`);
  }
  const path = screen === 'runs' ? '' : screen;
  return `#/${path}${parts.length === 0 ? '' : `?${parts.join('&')}`}`;
}

/** Ids of runs are paths; they stay readable. Lone surrogates have no encoding and become the replacement character. */
function escape(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll('%2F', '/').replaceAll('%3A', ':').replaceAll('%2C', ',');
}
