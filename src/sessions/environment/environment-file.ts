/** `./.env`: environment variables in a file. Variables that the process already has take precedence. */
import { parseEnv } from 'node:util';
import { ConfigError } from '../../core/errors.ts';
import { readSmallFileSync } from '../../files/small-file.ts';
import { systemText } from '../../files/system-text.ts';
import { decodeText } from '../../files/user-text.ts';

const MOST_BYTES = 2 ** 20;
/** Password managers serve the file as a pipe, after a question to the user. */
const PIPE_MS = 30_000;

/** Adds the file's variables that `environment` lacks and returns their names. Empty values are ignored; a missing file adds none. */
export function loadEnvironmentFile(path: string, environment: NodeJS.ProcessEnv): readonly string[] {
  let text: string;
  try {
    // Old editors of macOS end lines with CR alone.
    text = decodeText(readSmallFileSync(path, { mostBytes: MOST_BYTES, pipeMs: PIPE_MS }), path).replace(/\r\n?/g, '\n');
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw new ConfigError(`Cannot read ${path}: ${systemText(cause)}; it must be a readable file of NAME=value lines`, { cause });
  }
  const added: string[] = [];
  const parsed = parseEnv(text);
  assertNoneLost(text, parsed, path);
  for (const [name, value] of Object.entries(parsed)) {
    const strange = /[^\x21-\x7e]/u.exec(name)?.[0];
    if (strange !== undefined)
      throw new ConfigError(`A name in ${path} has the character ${codePoint(strange)}, so no variable would be set. Remove it`);
    if (environment[name] !== undefined || value === undefined || value === '') continue;
    environment[name] = value;
    added.push(name);
  }
  return added;
}

/** Throws ConfigError for a line of another language that sets one of our variables or a key, such as `$env:VF_MODEL="x"` and `VF_MODEL: x`: it would be lost without a word. */
function assertNoneLost(text: string, parsed: Readonly<Record<string, unknown>>, path: string): void {
  for (const [i, line] of text.split('\n').entries()) {
    const name = /^\s*(?:\$env:|set(?:x|env)? +)?["']?((?:VF_\w+|\w+_(?:API_KEY|TOKEN)))["']? *(?:[:= ]|$)/i.exec(line)?.[1];
    if (name !== undefined && !Object.hasOwn(parsed, name))
      throw new ConfigError(`Line ${i + 1} of ${path} does not set ${name}. Write ${name}=value`);
  }
}

/** `U+00A0`. */
function codePoint(character: string): string {
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`;
}
