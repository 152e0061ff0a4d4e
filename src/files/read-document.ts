/** Reads a small document in YAML or JSON. YAML is version 1.1, as PyYAML reads it; nothing in it can run code. */
import { ConfigError } from '../core/errors.ts';
import { parseJson, readTextFile } from './json-file.ts';

/** Number of times that the aliases of a document may be resolved; a few nested ones can otherwise stand for billions of values. */
const MOST_ALIASES = 100;

/**
 * The contents of a `.json` file, or of any other as YAML. Rejects with ConfigError, in one line that names the file, if it does not exist, is not a file, is
 * too large, cannot be parsed, or is YAML with a tag that is not YAML's own, a repeated key or too many aliases.
 */
export async function readDocument(path: string): Promise<unknown> {
  const text = await readTextFile(path);
  return path.endsWith('.json') ? parseJson(text, path) : parseYaml(text, path);
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
