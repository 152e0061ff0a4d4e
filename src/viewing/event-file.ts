/** The last lines of a training run's `events.jsonl`, read on as the file grows. */
import { kindProblem } from './field-kinds.ts';
import { FollowedLines } from './followed-lines.ts';
import type { LineProblems } from './line-problems.ts';
import { fieldsOf, numberOf, textOf } from './loose-fields.ts';
import type { TrainingDetail } from './view-wire.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';
import { parseWire } from '../schemas/results.ts';
import { EventLineSchema } from '../schemas/training-records.ts';
import { SettingHistory } from '../trainer/records/setting-history.ts';

const MOST_EVENTS = 1000;
type RunEvent = TrainingDetail['events'][number];

export class EventFile {
  readonly #file: FollowedLines;
  #events: RunEvent[] = [];
  #history = new SettingHistory();
  #problems: LineProblems | null = null;
  #refreshing: Promise<readonly RunEvent[]> | null = null;

  /** @param directory the folder of a training run */
  constructor(directory: string) {
    this.#file = new FollowedLines({ directory, name: 'events.jsonl', isPacked: false });
  }

  events(): Promise<readonly RunEvent[]> {
    this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = null));
    return this.#refreshing;
  }

  /** Of all lines that can be read. */
  async history(): Promise<SettingHistory> {
    await this.events();
    return this.#history;
  }

  /** What is wrong with the lines that were read; null if nothing is. */
  problem(isBeingWritten: boolean): string | null {
    return this.#file.problem(isBeingWritten);
  }

  async #refresh(): Promise<readonly RunEvent[]> {
    const begin = (problems: LineProblems) => {
      this.#problems = problems;
      this.#events = [];
      this.#history = new SettingHistory();
    };
    await this.#file.read({ begin, line: (bytes, start, end) => this.#add(bytes.toString('utf8', start, end)) });
    return this.#events.slice(-MOST_EVENTS);
  }

  #add(text: string): void {
    const line = fieldsOf(jsonOrNull(text));
    const { kind, step, time, message } = line;
    if (typeof kind !== 'string') return this.#problems?.leaveOut('is no event');
    const wrong = kindProblem(line, { step: 'number', time: 'text', message: 'text' });
    if (wrong !== null) this.#problems?.note(wrong);
    const whole = parseWire(EventLineSchema, text);
    if ('value' in whole) this.#history.add(whole.value);
    this.#events.push({ kind, step: numberOf(step) ?? 0, time: textOf(time) ?? '', message: textOf(message) ?? '' });
    if (this.#events.length > 2 * MOST_EVENTS) this.#events.splice(0, MOST_EVENTS);
  }
}
