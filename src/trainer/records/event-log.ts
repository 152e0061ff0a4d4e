/** `events.jsonl`: all events of a run, from all its processes. */
import { LineAppender } from '../../files/json-lines.ts';
import { parseWire } from '../../schemas/results.ts';
import { EventLineSchema, type WireEventLine } from '../../schemas/training-records.ts';
import { redactUrl } from '../../transport/redact.ts';
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

  append({ step, kind, message }: TrainingEvent): void {
    const event = { step, kind, time: this.#clock().toISOString(), message: this.#redact(redactUrl(message)) };
    this.#file.append([JSON.stringify(event)]);
    this.#count++;
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}
