/** Loads a value from the source by a key, keeps earlier values for going back, and loads it again while a run grows. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

export interface Loaded<T> {
  /** The value of the key; while it loads, the value of the previous key. Null before the first answer. */
  readonly value: T | null;
  readonly error: Error | null;
  /** True if `value` belongs to the key. */
  readonly isCurrent: boolean;
  readonly reload: () => void;
}

interface State<T> {
  readonly key: string;
  readonly value: T | null;
  readonly error: Error | null;
}

/** Answers by key, the least recently used first. */
const answers = new Map<string, unknown>();
const MOST_ANSWERS = 200;

function keep(key: string, value: unknown): void {
  answers.delete(key);
  answers.set(key, value);
  const oldest = answers.keys().next();
  if (answers.size > MOST_ANSWERS && oldest.done !== true) answers.delete(oldest.value);
}

export interface Loading {
  /** Loads again at this interval while the page is visible. 0: never. */
  readonly everyMs?: number;
}

/** @param key Names the value among all; null loads nothing. */
export function useLoaded<T>(key: string | null, load: () => Promise<T>, { everyMs = 0 }: Loading = {}): Loaded<T> {
  const [state, setState] = useState<State<T>>({ key: '', value: null, error: null });
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;

  useEffect(() => {
    if (key === null) return;
    let isWanted = true;
    const read = async () => {
      try {
        const value = await latest.current();
        keep(key, value);
        if (isWanted) setState({ key, value, error: null });
      } catch (error) {
        if (isWanted) setState({ key, value: null, error: error instanceof Error ? error : new Error(String(error)) });
      }
    };
    void read();
    return () => void (isWanted = false);
  }, [key, round]);

  useEffect(() => {
    if (everyMs === 0 || key === null) return;
    const timer = setInterval(() => document.visibilityState === 'visible' && setRound((n) => n + 1), everyMs);
    return () => clearInterval(timer);
  }, [key, everyMs]);

  const reload = useCallback(() => setRound((n) => n + 1), []);
  if (state.key === key) return { value: state.value, error: state.error, isCurrent: true, reload };
  const before = key === null ? undefined : (answers.get(key) as T | undefined);
  return { value: before ?? state.value, error: null, isCurrent: before !== undefined, reload };
}
