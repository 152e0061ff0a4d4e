/** The lines of metrics.jsonl of one run or of several, including those that a growing run adds. */
import { useEffect, useState } from 'preact/hooks';
import type { MetricLines, ViewSource } from '../../../src/viewing/view-wire.ts';
import { useSource } from '../source/source-context.ts';
import type { Metrics } from './metric-lines.ts';

interface Held extends Metrics {
  readonly next: number;
}

const NOTHING: Held = { lines: null, meanings: {}, settings: {}, older: 0, state: null, error: null, next: 0 };
const EVERY_MS = 2000;

export function useMetrics(run: string): Metrics {
  return useMetricsOf([run])[0]!;
}

/** In the order of the runs. One that cannot be read has an error, and costs the others nothing. */
export function useMetricsOf(runs: readonly string[]): readonly Metrics[] {
  const source = useSource();
  const [held, setHeld] = useState<ReadonlyMap<string, Held>>(new Map());
  useEffect(() => {
    setHeld(new Map());
    const stops = runs.map((run) =>
      follow(source, run, (next) => setHeld((before) => (before.get(run) === next ? before : new Map(before).set(run, next)))),
    );
    return () => stops.forEach((stop) => stop());
  }, [JSON.stringify(runs), source]);
  return runs.map((run) => held.get(run) ?? NOTHING);
}

/** Reads a run until the returned function is called. */
function follow(source: ViewSource, run: string, put: (next: Held) => void): () => void {
  let isWanted = true;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let now = NOTHING;
  const keep = (next: Held) => {
    now = next;
    if (isWanted) put(next);
  };
  const read = async () => {
    let isGrowing = source.live;
    try {
      if (document.visibilityState === 'visible') {
        const answer = await source.metrics(run, now.next);
        // A stopped run can be resumed; only a complete one never changes.
        isGrowing &&= answer.state !== 'complete';
        keep(joined(now, answer));
      }
    } catch (error) {
      keep({ ...now, error: error instanceof Error ? error : new Error(String(error)) });
    }
    if (isWanted && isGrowing) timer = setTimeout(() => void read(), EVERY_MS);
  };
  void read();
  return () => {
    isWanted = false;
    clearTimeout(timer);
  };
}

/** A file that was begun again is shorter than the part that was read of it: then the earlier lines are dropped. */
function joined(before: Held, { lines, next, older, state, meanings, settings }: MetricLines): Held {
  if (next < before.next) return NOTHING;
  const isSame = lines.length === 0 && before.lines !== null;
  if (isSame && next === before.next && state === before.state && before.error === null && settings === null) return before;
  return {
    lines: isSame ? before.lines : [...(before.lines ?? []), ...lines],
    next,
    older,
    state,
    meanings: meanings ?? before.meanings,
    settings: settings ?? before.settings,
    error: null,
  };
}
