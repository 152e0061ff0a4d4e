/** `./.env`: environment variables in a file. Variables that the process already has take precedence. */
import { parseEnv } from 'node:util';
import { ConfigError } from '../../core/errors.ts';
import { readUserTextSync } from '../../files/user-text.ts';

/** Adds the file's variables that `environment` lacks and returns their names. Empty values are ignored; a missing file adds none. */
export function loadEnvironmentFile(path: string, environment: NodeJS.ProcessEnv): readonly string[] {
  let text: string;
  try {
    text = readUserTextSync(path);
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return [];
    throw new ConfigError(`Cannot read ${path}: ${code}; it must be a readable file of NAME=value lines`, { cause });
  }
  const added: string[] = [];
  for (const [name, value] of Object.entries(parseEnv(text))) {
    const strange = /[^\x21-\x7e]/u.exec(name)?.[0];
    if (strange !== undefined)
      throw new ConfigError(`A name in ${path} has the character ${codePoint(strange)}, so no variable would be set. Remove it`);
    if (environment[name] !== undefined || value === undefined || value === '') continue;
    environment[name] = value;
    added.push(name);
  }
  return added;
}

/** `U+00A0`. */
function codePoint(character: string): string {
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`;
}
