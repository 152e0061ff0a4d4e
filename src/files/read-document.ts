/** Reads a small document in YAML or JSON. YAML is version 1.1, as PyYAML reads it; nothing in it can run code. */
import { ConfigError } from '../core/errors.ts';
import { readExactJson } from '../core/read-json.ts';
import { openRegularFile } from './regular-file.ts';
import { decodeText } from './user-text.ts';
import { systemText } from './system-text.ts';

/** A configuration of this size is a mistake. */
const MOST_BYTES = 16 * 2 ** 20;
/** Number of times that the aliases of a document may be resolved; a few nested ones can otherwise stand for billions of values. */
const MOST_ALIASES = 100;

/**
 * The contents of a `.json` file, or of any other as YAML. Rejects with ConfigError, in one line that names the file, if it does not exist, is not a file, is
 * too large, cannot be parsed, or is YAML with a tag that is not YAML's own, a repeated key or too many aliases.
 */
export async function readDocument(path: string): Promise<unknown> {
  const text = await readTextFile(path);
  if (!path.endsWith('.json')) return parseYaml(text, path);
  try {
    return readExactJson(text);
  } catch (cause) {
    throw new ConfigError(`${path} is not JSON: ${(cause as Error).message}`, { cause });
  }
}

/** As `readDocument`, for a string. @param where names it in messages */
export async function parseYaml(text: string, where: string): Promise<unknown> {
  const { parseDocument } = await import('yaml');
  const document = parseDocument(text, { version: '1.1', prettyErrors: false, logLevel: 'error' });
  const [problem] = [...document.errors, ...document.warnings];
  if (problem !== undefined) throw new ConfigError(`${where} is not YAML: ${problem.message.split('\n', 1)[0]}`, { cause: problem });
  try {
    return document.toJS({ maxAliasCount: MOST_ALIASES }) as unknown;
  } catch (cause) {
    throw new ConfigError(`${where} is not YAML: ${(cause as Error).message.split('\n', 1)[0]}`, { cause });
  }
}

/** The text of a file of at most 16 MiB. Rejects with ConfigError if it does not exist, is not a file or is larger. */
export async function readTextFile(path: string): Promise<string> {
  try {
    await using file = await openRegularFile(path);
    const { size } = await file.stat();
    if (size > MOST_BYTES) throw new ConfigError(`${path} has ${size} bytes, more than a document of at most ${MOST_BYTES}.`);
    return decodeText(await file.readFile(), path);
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new ConfigError(`The file ${path} does not exist`, { cause });
    if (code === 'EISDIR') throw new ConfigError(`${path} is a folder, not a file`, { cause });
    throw new ConfigError(`Could not read ${path}: ${systemText(cause)}`, { cause });
  }
}
