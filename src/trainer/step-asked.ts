/**
 * What the rollouts of a step asked of models by role: `step-000012.asked.jsonl` beside `step-000012.jsonl`. A line is written before its rollout's,
 * so that a rollout on file is never without it; where a rollout was played again, its last line counts. Nothing is trained from this file.
 */
import type { AskedRecord } from '../core/model.ts';
import { LineAppender } from '../files/json-lines.ts';
import { askedLine } from '../models/asked-records.ts';
import { AskedLineSchema, type WireAskedLine } from '../schemas/asked-line.ts';
import { parseWire } from '../schemas/results.ts';
import { recoverLines } from './recover-lines.ts';

export function askedPath(stepPath: string): string {
  return stepPath.replace(/\.jsonl$/, '.asked.jsonl');
}

export class StepAsked {
  readonly #file: LineAppender;
  readonly #redact: (text: string) => string;

  private constructor(file: LineAppender, redact: (text: string) => string) {
    this.#file = file;
    this.#redact = redact;
  }

  /** Mends a torn end, and opens the file to append. Throws ResultsError for a line that is no record. */
  static async open(path: string, redact: (text: string) => string): Promise<StepAsked> {
    await recoverLines<WireAskedLine>(path, {
      parse: (text) => parseWire(AskedLineSchema, text),
      visit: () => {},
      expected: 'what a rollout asked of models by role',
      remedy: 'delete that line; no rollout depends on it',
    });
    return new StepAsked(await LineAppender.open(path), redact);
  }

  /** On file when this returns. */
  add(rolloutId: string, asked: readonly AskedRecord[]): void {
    const line = askedLine(rolloutId, asked);
    if (line === null) return;
    const text = JSON.stringify({ ...line, asked: withoutSecrets(line.asked, this.#redact) });
    this.#file.append([text]);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

/** Every text in JSON data; names and numbers stay. */
function withoutSecrets<T>(data: T, redact: (text: string) => string): T {
  if (typeof data === 'string') return redact(data) as T;
  if (Array.isArray(data)) return data.map((item) => withoutSecrets(item as unknown, redact)) as T;
  if (typeof data !== 'object' || data === null) return data;
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, withoutSecrets(value as unknown, redact)])) as T;
}
