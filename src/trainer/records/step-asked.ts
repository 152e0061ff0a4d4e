/**
 * What the rollouts of a step asked of models by role: `step-000012.asked.jsonl` beside `step-000012.jsonl`. A line is written before its rollout's,
 * so that a rollout on file is never without it; where a rollout was played again, its last line counts. Nothing is trained from this file.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { AskedRecord } from '../../core/model.ts';
import { LineAppender } from '../../files/json-lines.ts';
import { askedFromLine, askedLine } from '../../models/asked-records.ts';
import { AskedLineSchema, type WireAskedLine } from '../../schemas/asked-line.ts';
import { parseWire } from '../../schemas/results.ts';
import { mapStrings } from '../../transport/redact.ts';
import { recoverLines } from './recover-lines.ts';

export function askedPath(stepPath: string): string {
  return stepPath.replace(/\.jsonl$/, '.asked.jsonl');
}

const STEP_FILE = /^step-\d+(\.[A-Za-z0-9-]+)*\.jsonl$/;

/**
 * Passes every call that is on file in a folder of steps to `visit`, those of rollouts that were played again included. Resolves with the first step that
 * the folder has; null for none. Throws ResultsError for an invalid line. Needs the run's lock.
 */
export async function readAsked(directory: string, visit: (asked: readonly AskedRecord[]) => void): Promise<number | null> {
  const names = (await readdir(directory).catch(() => [])).filter((name) => STEP_FILE.test(name));
  for (const name of names.filter((each) => each.endsWith('.asked.jsonl'))) {
    await recoverAsked(join(directory, name), (line) => visit(askedFromLine(line)));
  }
  const steps = names.map((name) => Number.parseInt(name.slice('step-'.length), 10));
  return steps.length === 0 ? null : Math.min(...steps);
}

function recoverAsked(path: string, visit: (line: WireAskedLine) => void): Promise<void> {
  return recoverLines<WireAskedLine>(path, {
    parse: (text) => parseWire(AskedLineSchema, text),
    visit,
    expected: 'what a rollout asked of models by role',
    remedy: 'delete that line; no rollout depends on it',
  });
}

export class StepAsked {
  readonly #file: LineAppender;
  readonly #redact: (text: string) => string;

  private constructor(file: LineAppender, redact: (text: string) => string) {
    this.#file = file;
    this.#redact = redact;
  }

  /** Repairs a torn end and opens the file for appending. Throws ResultsError for a line that is not a record. */
  static async open(path: string, redact: (text: string) => string): Promise<StepAsked> {
    await recoverAsked(path, () => {});
    return new StepAsked(await LineAppender.open(path), redact);
  }

  /** On file when this returns. */
  add(rolloutId: string, asked: readonly AskedRecord[]): void {
    const line = askedLine(rolloutId, asked);
    if (line === null) return;
    const text = JSON.stringify({ ...line, asked: mapStrings(line.asked, this.#redact) });
    this.#file.append([text]);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}
