/**
 * The calls of a step's rollouts to models, by role: `step-000012.asked.jsonl` next to `step-000012.jsonl`. A line is written before its rollout's, so that a
 * rollout on file is never without it; if a rollout was played again, its last line counts. Nothing is trained from this file.
 */
import { join } from 'node:path';
import type { AskedRecord } from '../../core/model.ts';
import { ResultsError } from '../../core/errors.ts';
import { LineAppender, readLines } from '../../files/json-lines.ts';
import { askedFromLine, askedLine } from '../../models/asked-records.ts';
import { AskedLineSchema, type WireAskedLine } from '../../schemas/asked-line.ts';
import { parseWire } from '../../schemas/results.ts';
import { mapStrings } from '../../transport/redact.ts';
import { recoverLines } from './recover-lines.ts';
import { rolloutFiles } from './rollout-archive.ts';

export function askedPath(stepPath: string): string {
  return stepPath.replace(/\.jsonl$/, '.asked.jsonl');
}

/**
 * Passes every call on file in a folder of steps to `visit`, including calls of rollouts that were played again. Resolves with the steps
 * that have a file. Throws ResultsError for an invalid line. Needs the run's lock.
 */
export async function readAsked(directory: string, visit: (asked: readonly AskedRecord[]) => void): Promise<readonly number[]> {
  const files = await rolloutFiles(directory);
  const live = new Set(files.filter(({ kept }) => kept === 'live').map(({ written }) => written));
  for (const { name, written, kept } of files.filter((file) => file.written.endsWith('.asked.jsonl'))) {
    const path = join(directory, name);
    if (kept === 'live') await recoverAsked(path, (line) => visit(askedFromLine(line)));
    // A killed process may have left both.
    else if (!live.has(written)) await readArchived(path, (line) => visit(askedFromLine(line)));
  }
  return [...new Set(files.map(({ step }) => step))];
}

async function readArchived(path: string, visit: (line: WireAskedLine) => void): Promise<void> {
  for await (const { text, number } of readLines(path, { isPacked: true })) {
    const parsed = parseWire(AskedLineSchema, text);
    if ('problem' in parsed)
      throw new ResultsError(`Line ${number} of ${path} is not what a rollout asked of models by role (${parsed.problem}); delete the file`);
    visit(parsed.value);
  }
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

  /** The calls are on file when this returns. */
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
