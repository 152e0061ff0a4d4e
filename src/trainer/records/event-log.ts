/** `events.jsonl`: all events of a run, from all its processes. */
import { LineAppender } from '../../files/json-lines.ts';
import { parseWire } from '../../schemas/results.ts';
import { EventLineSchema, type WireEventLine } from '../../schemas/training-records.ts';
import { redactUrl } from '../../transport/redact.ts';
import { recoverLines } from './recover-lines.ts';
import type { TrainingEvent } from '../loop/training-observer.ts';

export interface EventLogOptions {
  /** Clock for the time of a line. @default the system's */
  readonly clock?: () => Date;
  /** Removes secrets from messages. @default no change */
  readonly redact?: (text: string) => string;
}

export interface RecordedTrainingEvent extends TrainingEvent {
  /** When it was written, ISO 8601. */
  readonly time: string;
}

export class EventLog {
  readonly #file: LineAppender;
  readonly #events: RecordedTrainingEvent[];
  readonly #clock: () => Date;
  readonly #redact: (text: string) => string;

  private constructor(file: LineAppender, events: RecordedTrainingEvent[], { clock, redact }: EventLogOptions) {
    this.#file = file;
    this.#events = events;
    this.#clock = clock ?? (() => new Date());
    this.#redact = redact ?? ((text) => text);
  }

  /** Reads the existing lines and repairs a torn end. Throws ResultsError for an invalid line. Needs the run's lock. */
  static async open(path: string, options: EventLogOptions = {}): Promise<EventLog> {
    const events: RecordedTrainingEvent[] = [];
    await recoverLines<WireEventLine>(path, {
      parse: (text) => parseWire(EventLineSchema, text),
      // An unknown kind, from another version, is kept as it is.
      visit: (event) => events.push(event as RecordedTrainingEvent),
      expected: 'an event',
      remedy: 'delete that line; events are only displayed',
    });
    return new EventLog(await LineAppender.open(path), events, options);
  }

  get events(): readonly RecordedTrainingEvent[] {
    return this.#events;
  }

  append({ step, kind, message }: TrainingEvent): void {
    const event = { step, kind, time: this.#clock().toISOString(), message: this.#redact(redactUrl(message)) };
    this.#file.append([JSON.stringify(event)]);
    this.#events.push(event);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}
