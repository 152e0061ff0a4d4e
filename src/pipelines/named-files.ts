/** Digests of the files that a pipeline reads, so that a run goes on only with the files with which it began. */
import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { readRegularBytesSync } from '../files/regular-file.ts';
import { textsIn } from '../schemas/is-object.ts';
import type { Parameters } from './parameters.ts';
import { parseServerSource } from './server-source.ts';

/** A larger file, such as a corpus, is identified by its size and the time of its last change. */
const MOST_READ_BYTES = 16 * 2 ** 20;

/** Parameters that name output files. */
const OUTPUTS = /(^|_)(save|output)_path$/;

export interface NamedFilesOptions {
  readonly parameters: Parameters;
  /** The value of each server in the pipeline's `servers`. */
  readonly sources: Readonly<Record<string, unknown>>;
  readonly resolve: (path: string) => string;
}

/** Digests of templates, questions, corpora and modules, by path as the pipeline writes it. The code of an MCP server is not among them. */
export function namedFiles({ parameters, sources, resolve }: NamedFilesOptions): Readonly<Record<string, string>> {
  const modules = Object.entries(sources).flatMap(([name, value]) => {
    const source = parseServerSource(name, value);
    return source.kind === 'module' ? [source.path] : [];
  });
  const named = [...modules, ...textsIn([...withoutOutputs(parameters).values()]).filter(canBePath)];
  const digests = [...new Set(named)].toSorted().flatMap((path) => {
    const digest = fileDigest(resolve(path));
    return digest === null ? [] : [[path, digest] as const];
  });
  return Object.fromEntries(digests);
}

/** The parameters without those that name output files: a run may go on with another file for its results. */
export function withoutOutputs(parameters: Parameters): Parameters {
  return new Map(
    [...parameters].map(([server, values]) => [server, Object.fromEntries(Object.entries(values).filter(([key]) => !OUTPUTS.test(key)))]),
  );
}

export function digestOf(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex').slice(0, 16);
}

/** Null if it is not a regular file that can be read. */
function fileDigest(path: string): string | null {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found?.isFile() !== true) return null;
    return found.size > MOST_READ_BYTES ? `${found.size} bytes, changed ${found.mtime.toISOString()}` : digestOf(readRegularBytesSync(path));
  } catch {
    // The text is not a path, or the file cannot be read. The tool that needs the file reports it.
    return null;
  }
}

function canBePath(text: string): boolean {
  return text !== '' && text.length <= 4096;
}
