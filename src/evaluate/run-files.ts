/** The files of a run directory: where they are, how metadata is read and replaced, and how what a dead process left is put in order. */
import { readdir, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import type { Static } from 'typebox';
import { MetadataSchema, parseWire, ResultSchema, TokensSchema, type WireMetadata, type WireResult } from '../schemas/results.ts';
import { keepLines, type Line, readLines, replaceFile } from './json-lines.ts';
import { type RecordedRollout, recordedRollout } from './recorded-rollout.ts';

type RecordSchema = typeof ResultSchema | typeof TokensSchema;

export interface RunFiles {
  readonly metadata: string;
  readonly results: string;
  /** Written for token policies alone. */
  readonly tokens: string;
}

export function runFiles(directory: string): RunFiles {
  return { metadata: join(directory, 'metadata.json'), results: join(directory, 'results.jsonl'), tokens: join(directory, 'tokens.jsonl') };
}

/** Throws ConfigError when the directory holds no run, or one that this version cannot read. */
export async function readMetadata(directory: string): Promise<WireMetadata> {
  const path = runFiles(directory).metadata;
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const missing = code === 'ENOENT' || code === 'ENOTDIR';
    throw new ConfigError(missing ? `Expected a run directory with a metadata.json, got ${directory}` : `Expected to read ${path}: ${message}`, {
      cause,
    });
  }
  const parsed = parseWire(MetadataSchema, text);
  if ('problem' in parsed) throw new ConfigError(`Expected ${path} to be the metadata of a run, got ${parsed.problem}`);
  return parsed.value;
}

export async function writeMetadata(directory: string, metadata: WireMetadata): Promise<void> {
  await replaceFile(runFiles(directory).metadata, (write) => write(Buffer.from(`${JSON.stringify(metadata, null, 2)}\n`, 'utf8')));
}

/**
 * Shows `visit` every record of a file, one after another, and tells how many there are and whether the file ends with a whole line. A last line that was cut off is
 * no record. Throws ConfigError with the line number for anything else that does not fit the schema.
 */
export async function readRecords<T extends RecordSchema>(
  path: string,
  schema: T,
  visit: (record: Static<T>, line: Line) => unknown,
): Promise<{ records: number; endsWhole: boolean }> {
  let records = 0;
  let endsWhole = true;
  for await (const line of readLines(path)) {
    endsWhole = line.isWhole;
    const parsed = parseWire(schema, line.text);
    if ('problem' in parsed) {
      if (!line.isWhole) break;
      throw new ConfigError(`Expected line ${line.number} of ${path} to be a record of a rollout, got ${parsed.problem}`);
    }
    records += 1;
    const pending = visit(parsed.value, line);
    if (pending instanceof Promise) await pending;
  }
  return { records, endsWhole };
}

/** The recorded line of one rollout; null when there is none. */
export async function findResult(directory: string, rolloutId: string): Promise<WireResult | null> {
  const needle = JSON.stringify(rolloutId);
  for await (const { text } of readLines(runFiles(directory).results)) {
    if (!text.includes(needle)) continue;
    const parsed = parseWire(ResultSchema, text);
    if ('value' in parsed && parsed.value.rollout_id === rolloutId) return parsed.value;
  }
  return null;
}

export interface RecoverOptions {
  /** A finished rollout counts only with its tokens. */
  readonly needsTokens: boolean;
  /** Rollouts were scored as groups of this many: one is kept only if its whole group finished. 1 where each was scored alone. */
  readonly groupSize: number;
}

export interface Recovered {
  /** The finished rollouts, in the order of the file. */
  readonly kept: readonly RecordedRollout[];
  /** Recorded rollouts that were dropped: they failed, or lack their tokens or their group. */
  readonly dropped: number;
}

/** Drops from the files what a resume will play again, and whatever a dying process left half done. Needs the lock. */
export async function recoverRun(directory: string, { needsTokens, groupSize }: RecoverOptions): Promise<Recovered> {
  for (const name of await readdir(directory)) if (/\.\d+\.tmp$/.test(name)) await unlink(join(directory, name));

  const files = runFiles(directory);
  const tokens = new Map<string, Line>();
  const tokenFile = await readRecords(files.tokens, TokensSchema, (record, line) => tokens.set(record.rollout_id, withoutText(line)));
  const found = new Map<string, { rollout: RecordedRollout; line: Line }>();
  const resultFile = await readRecords(files.results, ResultSchema, (record, line) => {
    const rollout = recordedRollout(record);
    const isFinished = rollout.error === null && (!needsTokens || tokens.has(rollout.rolloutId));
    if (isFinished && !found.has(rollout.rolloutId)) found.set(rollout.rolloutId, { rollout, line: withoutText(line) });
  });
  const sizes = new Map<string, number>();
  for (const { rollout } of found.values()) sizes.set(rollout.groupId, (sizes.get(rollout.groupId) ?? 0) + 1);
  const kept = [...found.values()].filter(({ rollout }) => sizes.get(rollout.groupId)! >= groupSize);

  const keptIds = new Set(kept.map(({ rollout }) => rollout.rolloutId));
  const keptTokens = [...tokens].filter(([id]) => keptIds.has(id)).map(([, line]) => line);
  // Tokens last: a crash in between leaves tokens without a result, which the next resume drops, and never a result without its tokens.
  if (!resultFile.endsWhole || kept.length < resultFile.records)
    await keepLines(
      files.results,
      kept.map(({ line }) => line),
    );
  if (!tokenFile.endsWhole || keptTokens.length < tokenFile.records) await keepLines(files.tokens, keptTokens);
  return { kept: kept.map(({ rollout }) => rollout), dropped: resultFile.records - kept.length };
}

/** Where a line is, without holding on to what it says. */
function withoutText(line: Line): Line {
  return { ...line, text: '' };
}
