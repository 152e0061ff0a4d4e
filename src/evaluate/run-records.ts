/** Reads the records of a run directory, and checks each against its schema. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { XStatic } from 'typebox/schema';
import { ConfigError } from '../core/errors.ts';
import type { AskedLineSchema } from '../schemas/asked-line.ts';
import { recordedProblem } from '../schemas/log-prob-range.ts';
import type { PlayedLineSchema } from '../schemas/played-line.ts';
import { MetadataSchema, parseWire, type ResultSchema, type TokensSchema, type WireMetadata } from '../schemas/results.ts';
import { type Line, readLines } from '../files/json-lines.ts';
import { readRegularFile, statIfThere } from '../files/regular-file.ts';
import { RolloutIds } from '../files/rollout-ids.ts';
import { runFiles } from './run-files.ts';
import { systemText } from '../files/system-text.ts';

type RecordSchema = typeof ResultSchema | typeof TokensSchema | typeof AskedLineSchema | typeof PlayedLineSchema;

/** Throws ConfigError when the directory holds no run, or one that this version cannot read. */
export async function readMetadata(directory: string): Promise<WireMetadata> {
  const path = runFiles(directory).metadata;
  let text: string;
  try {
    text = await readRegularFile(path);
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    const missing = code === 'ENOENT' || code === 'ENOTDIR';
    throw new ConfigError(missing ? missingText(directory) : `Could not read ${path}: ${systemText(cause)}`, { cause });
  }
  const parsed = parseWire(MetadataSchema, text);
  if ('problem' in parsed) throw new ConfigError(`${path} is not the metadata of a run: ${parsed.problem}. Restore the file, or play the run again.`);
  return parsed.value;
}

function missingText(directory: string): string {
  if (!existsSync(directory)) return `The directory ${directory} does not exist. Name the results folder that vf-eval printed`;
  if (!statIfThere(directory)?.isDirectory()) return `${directory} is not a folder, so it is not a run. Name the results folder that vf-eval printed`;
  // Only vf-train writes this file.
  if (existsSync(join(directory, 'run.json')))
    return `${directory} is a training run; name the results folder of an evaluation, which vf-eval printed, or one of its evaluations/step-*.jsonl`;
  return `${directory} is not a run directory: it has no metadata.json. Name the results folder that vf-eval printed`;
}

export interface FoundRecords {
  readonly records: number;
  /** With those that repeat another. */
  readonly lines: number;
  /** The file ends with a line feed. */
  readonly endsWhole: boolean;
  /** A sentence about a last line that a kill or a full disk cut off; empty without one. */
  readonly cutOff: readonly string[];
  /** What was left out. */
  readonly notes: readonly string[];
}

/**
 * Calls `visit` with every record of a file in order. A torn last line is not a record, and neither is one that repeats another. Throws ConfigError with the line
 * number of any other line that does not fit the schema, or has the id of another. `shownAs`: the path in messages.
 */
export async function readRecords<T extends RecordSchema>(
  path: string,
  schema: T,
  visit: (record: XStatic<T>, line: Line) => unknown,
  shownAs: string = path,
): Promise<FoundRecords> {
  const ids = new RolloutIds(shownAs);
  let [records, lines] = [0, 0];
  let endsWhole = true;
  const cutOff: string[] = [];
  for await (const line of readLines(path)) {
    endsWhole = line.isWhole;
    const parsed = parseWire(schema, line.text);
    if ('problem' in parsed) {
      if (!line.isWhole) {
        cutOff.push(`line ${line.number} of ${shownAs} is cut off, so what it records is lost`);
        break;
      }
      throw new ConfigError(
        `Line ${line.number} of ${shownAs} is not a record of a rollout: ${parsed.problem}. Restore the file, or delete the line and lose what it records.`,
      );
    }
    const foreign = 'token_ids' in parsed.value ? recordedProblem(parsed.value.token_ids, parsed.value.logprobs) : null;
    if (foreign !== null)
      throw new ConfigError(
        `Line ${line.number} of ${shownAs} has ${foreign}. Restore the file, or delete the line, so that -R plays the rollout again.`,
      );
    lines += 1;
    const { branch = 0 } = parsed.value as { readonly branch?: number };
    if (!ids.isNew(parsed.value.rollout_id, line, { branch })) continue;
    records += 1;
    const pending = visit(parsed.value, line);
    if (pending instanceof Promise) await pending;
  }
  return { records, lines, endsWhole, cutOff, notes: ids.notes };
}
