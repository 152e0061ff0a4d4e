/** Files that are read only as they were written: by size and SHA-256, which a record holds in the same folder or in the one above. */
import { createHash } from 'node:crypto';
import { basename, dirname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { countText } from '../core/count-text.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { jsonObjectAt } from './json-file.ts';
import { statIfThere, streamRegularFile } from './regular-file.ts';
import { systemText } from './system-text.ts';

export const ADAPTER_FILES = ['adapter_config.json', 'adapter_model.safetensors'];

export interface WrittenFile {
  /** Relative to the folder of the record, with forward slashes. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** Records with `files`: of a checkpoint, and of a version that is kept as the best. */
const RECORDS = ['checkpoint.json', 'evaluation.json', 'validation.json'];

/** The first file that differs from its record, in words; null if all are as they were written. */
export async function writtenFault(directory: string, files: readonly WrittenFile[]): Promise<string | null> {
  for (const { path, ...expected } of files) {
    const found = await sumOf(join(directory, path)).catch((error: unknown) => unreadText(path, error));
    if (typeof found === 'string') return found;
    if (found.bytes !== expected.bytes) return `${path} has ${countText(found.bytes)} bytes instead of ${countText(expected.bytes)}`;
    if (found.sha256 !== expected.sha256) return `${path} changed after it was written`;
  }
  return null;
}

/** `writtenFault` of an adapter that a training wrote: its record lies next to its folder. Null without a record, as for an adapter that was copied elsewhere. */
export function adapterFault(adapter: string): Promise<string | null> {
  const [above, name] = [dirname(resolve(adapter)), basename(resolve(adapter))];
  const files = RECORDS.flatMap((record) => recordedFiles(join(above, record))).filter(({ path }) => path.startsWith(`${name}/`));
  return writtenFault(above, files);
}

/** For the record next to an adapter: its two files, without a card, which may be written again. */
export function writtenAdapter(adapter: string): Promise<WrittenFile[]> {
  const paths = ADAPTER_FILES.filter((file) => statIfThere(join(adapter, file)) !== undefined).map((file) => `${basename(adapter)}/${file}`);
  return Promise.all(paths.map(async (path) => ({ path, ...(await sumOf(join(dirname(adapter), path))) })));
}

function recordedFiles(record: string): readonly WrittenFile[] {
  const { files } = fieldsOf(jsonObjectAt(record));
  return Array.isArray(files) ? files.filter(isWrittenFile) : [];
}

function isWrittenFile(value: unknown): value is WrittenFile {
  if (!isObject(value)) return false;
  const { path, bytes, sha256 } = value;
  return typeof path === 'string' && typeof bytes === 'number' && typeof sha256 === 'string';
}

export function unreadText(path: string, error: unknown): string {
  return (error as NodeJS.ErrnoException).code === 'ENOENT' ? `${path} is missing` : `${path} cannot be read: ${systemText(error)}`;
}

export async function sumOf(path: string): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const hash = createHash('sha256');
  let bytes = 0;
  await pipeline(await streamRegularFile(path, { pieceBytes: 1 << 20 }), async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      hash.update(chunk);
    }
  });
  return { bytes, sha256: hash.digest('hex') };
}
