/** SHA-256 of files that a setting names: an adapter, a module with what it imports, the beginning of a file that may grow. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { readRegularFile, streamRegularFile } from './regular-file.ts';

const ADAPTER_FILES = ['adapter_config.json', 'adapter_model.safetensors'];
/** The name of a module that Node imports. */
export const MODULE = /\.[cm]?[jt]sx?$/;
const MOST_MODULES = 200;

/** By the names of an adapter's two files; one that is missing has none. */
export async function adapterDigests(directory: string): Promise<Record<string, string>> {
  const names = ADAPTER_FILES.filter((name) => existsSync(join(directory, name)));
  const digests = await Promise.all(names.map((name) => prefixDigest(join(directory, name), Infinity)));
  return Object.fromEntries(names.map((name, i) => [name, digests[i]!.slice(digests[i]!.indexOf(':') + 1)]));
}

/** Of a module and those that it imports by relative paths, by their paths from its folder. */
export async function moduleDigests(entry: string): Promise<Record<string, string>> {
  const digests: Record<string, string> = {};
  const waiting = [entry];
  for (let path = waiting.pop(); path !== undefined && Object.keys(digests).length < MOST_MODULES; path = waiting.pop()) {
    const name = relative(dirname(entry), path);
    if (name in digests || !existsSync(path)) continue;
    const text = await readRegularFile(path);
    digests[name] = createHash('sha256').update(text).digest('hex');
    if (!MODULE.test(path)) continue;
    for (const [, , imported] of text.matchAll(/\b(from|import)\s*\(?\s*['"](\.{1,2}\/[^'"\n]+)['"]/g))
      waiting.push(resolve(dirname(path), imported!));
  }
  return digests;
}

/** `<bytes>:<digest>` of the first `bytes` of a file, or of all that it has. */
export async function prefixDigest(path: string, bytes: number): Promise<string> {
  const hash = createHash('sha256');
  let read = 0;
  for await (const piece of await streamRegularFile(path, { pieceBytes: 1 << 20 })) {
    const part = (piece as Buffer).subarray(0, bytes - read);
    hash.update(part);
    read += part.length;
    if (read >= bytes) break;
  }
  return `${read}:${hash.digest('hex')}`;
}
