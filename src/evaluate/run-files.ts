/** The files of a run directory. */
import { existsSync } from 'node:fs';
import { readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { jsonOrNull } from '../schemas/json-or-null.ts';
import type { WireAskedLine } from '../schemas/asked-line.ts';
import { metadataText, type WireMetadata, type WireResult } from '../schemas/results.ts';
import { readLines, replaceFile } from '../files/json-lines.ts';

const FILES = {
  metadata: 'metadata.json',
  results: 'results.jsonl',
  /** Only for token policies. */
  tokens: 'tokens.jsonl',
  /** The parts of an episode that rewards read and that its result lacks. */
  played: 'played.jsonl',
  /** Only for environments with models by role. */
  asked: 'asked.jsonl',
  /** Only for environments that trace. */
  trace: 'trace.jsonl',
} as const;

export type RunFiles = Readonly<Record<keyof typeof FILES, string>>;

export function runFiles(directory: string): RunFiles {
  return Object.fromEntries(Object.entries(FILES).map(([name, file]) => [name, join(directory, file)])) as unknown as RunFiles;
}

export async function writeMetadata(directory: string, metadata: WireMetadata): Promise<void> {
  await replaceFile(runFiles(directory).metadata, (write) => write(Buffer.from(`${metadataText(metadata)}\n`, 'utf8')));
}

/** Removes the files that a killed process had not renamed yet. Needs the lock. */
export async function removeTemporaryFiles(directory: string): Promise<void> {
  for (const name of await readdir(directory)) if (/\.\d+\.tmp$/.test(name)) await unlink(join(directory, name));
}

/** The recorded line of one rollout of this process's run; null if there is none. */
export function findResult(directory: string, rolloutId: string): Promise<WireResult | null> {
  return findLine<WireResult>(runFiles(directory).results, rolloutId);
}

/** The calls of that rollout to models by role; null if it made none. */
export async function findAsked(directory: string, rolloutId: string): Promise<WireAskedLine['asked'] | null> {
  const path = runFiles(directory).asked;
  return existsSync(path) ? ((await findLine<WireAskedLine>(path, rolloutId))?.asked ?? null) : null;
}

async function findLine<T extends { readonly rollout_id: string }>(path: string, rolloutId: string): Promise<T | null> {
  const needle = `"rollout_id":${JSON.stringify(rolloutId)}`;
  for await (const { text } of readLines(path)) {
    if (!text.includes(needle)) continue;
    const line = jsonOrNull(text) as T | null;
    if (line?.rollout_id === rolloutId) return line;
  }
  return null;
}
