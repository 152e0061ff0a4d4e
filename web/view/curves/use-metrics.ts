/** The lines of metrics.jsonl, including those that a growing run adds. */
import { useEffect, useState } from 'preact/hooks';
import type { MetricLines } from '../../../src/viewing/view-wire.ts';
import { useSource } from '../source/source-context.ts';

export type MetricLine = MetricLines['lines'][number];

export interface Metrics {
  /** Null before the first answer. */
  readonly lines: readonly MetricLine[] | null;
  readonly meanings: Readonly<Record<string, string>>;
  readonly error: Error | null;
}

interface Held extends Metrics {
  readonly next: number;
}

const NOTHING: Held = { lines: null, meanings: {}, error: null, next: 0 };
const EVERY_MS = 2000;

export function useMetrics(run: string): Metrics {
  const source = useSource();
  const [held, setHeld] = useState<Held>(NOTHING);
  useEffect(() => {
    let isWanted = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let now = NOTHING;
    const put = (next: Held) => {
      now = next;
      if (isWanted) setHeld(next);
    };
    const read = async () => {
      let isGrowing = source.live;
      try {
        if (document.visibilityState === 'visible') {
          const answer = await source.metrics(run, now.next);
          // A stopped run can be resumed; only a complete one never changes.
          isGrowing &&= answer.state !== 'complete';
          put(joined(now, answer));
        }
      } catch (error) {
        put({ ...now, error: error instanceof Error ? error : new Error(String(error)) });
      }
      if (isWanted && isGrowing) timer = setTimeout(() => void read(), EVERY_MS);
    };
    setHeld(NOTHING);
    void read();
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [run, source]);
  return held;
}

/** A file that was begun again is shorter than the part that was read of it: then the earlier lines are dropped. */
function joined(before: Held, { lines, next, meanings }: MetricLines): Held {
  if (next < before.next) return NOTHING;
  const isSame = lines.length === 0 && before.lines !== null;
  return { lines: isSame ? before.lines : [...(before.lines ?? []), ...lines], next, meanings: meanings ?? before.meanings, error: null };
}
