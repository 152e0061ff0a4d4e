/** The files of a run directory. */
import { join } from 'node:path';
import { metadataText, type WireMetadata, type WireResult } from '../schemas/results.ts';
import { readLines, replaceFile } from '../files/json-lines.ts';

export interface RunFiles {
  readonly metadata: string;
  readonly results: string;
  /** Only for token policies. */
  readonly tokens: string;
  /** Only for environments with models by role. */
  readonly asked: string;
  /** Only for environments that trace. */
  readonly trace: string;
}

export function runFiles(directory: string): RunFiles {
  const file = (name: string) => join(directory, name);
  return {
    metadata: file('metadata.json'),
    results: file('results.jsonl'),
    tokens: file('tokens.jsonl'),
    asked: file('asked.jsonl'),
    trace: file('trace.jsonl'),
  };
}

export async function writeMetadata(directory: string, metadata: WireMetadata): Promise<void> {
  await replaceFile(runFiles(directory).metadata, (write) => write(Buffer.from(`${metadataText(metadata)}\n`, 'utf8')));
}

/** The recorded line of one rollout of this process's run; null if there is none. */
export async function findResult(directory: string, rolloutId: string): Promise<WireResult | null> {
  const needle = `"rollout_id":${JSON.stringify(rolloutId)}`;
  for await (const { text } of readLines(runFiles(directory).results)) {
    if (!text.includes(needle)) continue;
    const result = JSON.parse(text) as WireResult;
    if (result.rollout_id === rolloutId) return result;
  }
  return null;
}
