/** The rows of a table that are in view, fetched page by page. A new query shows the rows of the previous one until its first page has arrived. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { RolloutLine, RolloutPage, RolloutQuery } from '../../../src/viewing/view-wire.ts';
import { useSource } from '../source/source-context.ts';

const PAGE_ROWS = 100;

export interface RolloutRows {
  /** The newest answer; null before the first. */
  readonly page: RolloutPage | null;
  readonly row: (index: number) => RolloutLine | undefined;
  readonly error: Error | null;
  readonly isCurrent: boolean;
  readonly reload: () => void;
  /** Reports the rows that are in view. */
  readonly show: (first: number, last: number) => void;
}

interface Held {
  readonly key: string;
  readonly page: RolloutPage | null;
  readonly rows: ReadonlyMap<number, readonly RolloutLine[]>;
  readonly error: Error | null;
}

/** @param everyMs Fetches the pages in view again at this interval; 0: never. */
export function useRollouts(query: RolloutQuery, everyMs: number): RolloutRows {
  const source = useSource();
  const key = JSON.stringify(query);
  const [held, setHeld] = useState<Held>({ key: '', page: null, rows: new Map(), error: null });
  const [range, setRange] = useState<readonly [number, number]>([0, 0]);
  const [round, setRound] = useState(0);
  const asked = useRef(new Set<string>());

  const [first, last] = range;
  useEffect(() => {
    let isWanted = true;
    for (let at = Math.max(0, first); at <= last; at++) {
      const name = `${key} ${at} ${round}`;
      if (asked.current.has(name)) continue;
      asked.current.add(name);
      source.rollouts({ ...query, from: at * PAGE_ROWS, count: PAGE_ROWS }).then(
        (page) => setHeld((before) => joined(before, key, at, page)),
        (cause: unknown) => {
          asked.current.delete(name);
          const error = cause instanceof Error ? cause : new Error(String(cause));
          if (isWanted) setHeld((before) => ({ ...before, key, error }));
        },
      );
    }
    return () => void (isWanted = false);
  }, [key, first, last, round]);

  useEffect(() => {
    if (everyMs === 0) return;
    const timer = setInterval(() => document.visibilityState === 'visible' && setRound((n) => n + 1), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);

  const newest = useRef(key);
  newest.current = key;
  const joined = (before: Held, of: string, at: number, page: RolloutPage): Held => {
    if (of !== newest.current) return before;
    const rows = new Map(before.key === of ? before.rows : []);
    rows.set(at, page.rows);
    return { key: of, page, rows, error: null };
  };
  const show = useCallback((from: number, to: number) => {
    const pages = [Math.floor(from / PAGE_ROWS), Math.floor(to / PAGE_ROWS)] as const;
    setRange((before) => (before[0] === pages[0] && before[1] === pages[1] ? before : pages));
  }, []);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  return {
    page: held.page,
    row: (index) => held.rows.get(Math.floor(index / PAGE_ROWS))?.[index % PAGE_ROWS],
    error: held.error,
    isCurrent: held.key === key,
    reload,
    show,
  };
}
