/** `events.jsonl`: what happened to a run, all of it, over all its processes. */
import { LineAppender } from '../files/json-lines.ts';
import { parseWire } from '../schemas/results.ts';
import { EventLineSchema, type WireEventLine } from '../schemas/training-records.ts';
import { redactUrl } from '../transport/redact.ts';
import { recoverLines } from './recover-lines.ts';
import type { TrainingEvent } from './training-observer.ts';

export interface EventLogOptions {
  /** The time of a line. @default the system's */
  readonly clock?: () => Date;
  /** Takes secrets out of the messages. @default leaves them */
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

  /** Reads what is there and mends a torn end. Throws ResultsError for a line that is no event. Needs the run's lock. */
  static async open(path: string, options: EventLogOptions = {}): Promise<EventLog> {
    const events: RecordedTrainingEvent[] = [];
    await recoverLines<WireEventLine>(path, {
      parse: (text) => parseWire(EventLineSchema, text),
      // A kind that this version does not know is shown as it is.
      visit: (event) => events.push(event as RecordedTrainingEvent),
      expected: 'an event',
      remedy: 'delete that line; it is only shown, nothing is computed from it',
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
