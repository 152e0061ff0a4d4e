/** `events.jsonl`: all events of a run, from all its processes. */
import { LineAppender, readLines } from '../../files/json-lines.ts';
import { parseWire } from '../../schemas/results.ts';
import { EventLineSchema, type WireEventLine } from '../../schemas/training-records.ts';
import { mapStrings, redactUrl } from '../../transport/redact.ts';
import { recoverLines } from './recover-lines.ts';
import type { TrainingEvent } from '../training-observer.ts';

export interface EventLogOptions {
  /** Clock for the time of a line. @default the system's */
  readonly clock?: () => Date;
  /** Removes secrets from messages. @default no change */
  readonly redact?: (text: string) => string;
}

export class EventLog {
  readonly #file: LineAppender;
  readonly #clock: () => Date;
  readonly #redact: (text: string) => string;
  #count: number;

  private constructor(file: LineAppender, count: number, { clock, redact }: EventLogOptions) {
    this.#file = file;
    this.#count = count;
    this.#clock = clock ?? (() => new Date());
    this.#redact = redact ?? ((text) => text);
  }

  /** Reads the existing lines and repairs a torn end. Throws ResultsError for an invalid line. Needs the run's lock. */
  static async open(path: string, options: EventLogOptions = {}): Promise<EventLog> {
    let count = 0;
    await recoverLines<WireEventLine>(path, {
      parse: (text) => parseWire(EventLineSchema, text),
      visit: () => count++,
      expected: 'an event',
      remedy: 'delete that line; events are only displayed',
    });
    return new EventLog(await LineAppender.open(path), count, options);
  }

  /** Number of events in the file. */
  get count(): number {
    return this.#count;
  }

  append({ step, kind, message, reason, changes }: TrainingEvent): void {
    const redact = (text: string) => this.#redact(redactUrl(text));
    const more = { ...(reason === undefined ? {} : { reason }), ...(changes === undefined ? {} : { changes: mapStrings(changes, redact) }) };
    const event = { step, kind, time: this.#clock().toISOString(), message: redact(message), ...more };
    this.#file.append([JSON.stringify(event)]);
    this.#count++;
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

/** The step after which a publish failed, if no later process has opened the run: its version never served. Null if the last publish succeeded. */
export async function readUnpublishedStep(path: string): Promise<number | null> {
  let failed: number | null = null;
  for await (const line of readLines(path)) {
    const parsed = parseWire(EventLineSchema, line.text);
    if ('problem' in parsed) continue;
    const { kind, step } = parsed.value;
    // A process that opens the run publishes its version, or ends.
    if (kind === 'started' || kind === 'resumed') failed = null;
    if (kind === 'publish_failed') failed = step;
  }
  return failed;
}

/** Steps that changed no weight for the same kind of reason. */
export interface SkippedSteps {
  /** As in `SkipReason`; null for a run of an earlier version. */
  readonly kind: string | null;
  /** That of the last of them, with its step if the others had another one. */
  readonly text: string;
  readonly steps: number;
}

const NO_UPDATE = 'No update: ';

/** Reads the recorded reasons of these steps, most frequent first. A step that was repeated counts by its last event. Skips unreadable lines and changes nothing. */
export async function readSkippedSteps(path: string, steps: ReadonlySet<number>): Promise<SkippedSteps[]> {
  const last = new Map<number, SkippedStep>();
  for await (const line of readLines(path)) {
    const parsed = parseWire(EventLineSchema, line.text);
    if ('problem' in parsed || parsed.value.kind !== 'step_skipped' || !steps.has(parsed.value.step)) continue;
    const { step, message, reason = null } = parsed.value;
    last.set(step, { step, kind: reason, text: message.startsWith(NO_UPDATE) ? message.slice(NO_UPDATE.length) : message });
  }
  const byReason = Map.groupBy(last.values(), ({ kind, text }) => kind ?? text);
  return [...byReason.values()].map((same) => ({ ...lastOf(same), steps: same.length })).toSorted((a, b) => b.steps - a.steps);
}

interface SkippedStep extends Omit<SkippedSteps, 'steps'> {
  readonly step: number;
}

function lastOf(same: readonly SkippedStep[]): Omit<SkippedSteps, 'steps'> {
  const { step, kind, text } = same.reduce((last, each) => (each.step > last.step ? each : last));
  return { kind, text: same.every((each) => each.text === text) ? text : `in step ${step}, the last of these, ${text}` };
}
