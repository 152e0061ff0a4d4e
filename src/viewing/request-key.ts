/** The canonical form of a page's request: the path and query over HTTP, and the key of the answer in an exported file. Pure; the page bundles it. */
import type { ComparisonQuery, RolloutPlace, RolloutQuery, TokensPlace } from './view-wire.ts';

type Value = string | number | boolean | undefined;

/** `api/<route>?<query>`, with the fields in the order of their names; fields that are undefined are left out. */
function requestKey(route: string, query: Readonly<Record<string, Value | readonly string[]>> = {}): string {
  const words = new URLSearchParams();
  for (const name of Object.keys(query).toSorted()) {
    const value = query[name];
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? (value as readonly string[]) : [value as string | number | boolean]) words.append(name, String(one));
  }
  const text = words.toString();
  return text === '' ? `api/${route}` : `api/${route}?${text}`;
}

/** One key for each question that a `ViewSource` answers. */
export const VIEW_REQUESTS = {
  runs: (): string => requestKey('runs'),
  run: (run: string): string => requestKey('run', { run }),
  rollouts: (query: RolloutQuery): string => requestKey('rollouts', { ...query }),
  rollout: (place: RolloutPlace): string => requestKey('rollout', { ...place }),
  tokens: (place: TokensPlace): string => requestKey('tokens', { ...place }),
  metrics: (run: string, after: number): string => requestKey('metrics', { run, after }),
  step: (run: string, step: number): string => requestKey('step', { run, step }),
  heldOut: (run: string, group: string): string => requestKey('held-out', { run, group }),
  compare: ({ sets, ...query }: ComparisonQuery): string => requestKey('compare', { ...query, set: sets.map(({ run, set }) => `${run}:${set}`) }),
  image: (run: string, sha256: string): string => requestKey('image', { run, sha256 }),
} as const;
