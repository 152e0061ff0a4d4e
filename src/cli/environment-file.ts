/** `./.env`: variables for people who keep keys in a file. Whatever the process already has wins. */
import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { ConfigError } from '../core/errors.ts';

/** Adds the variables of the file that `environment` does not have; an empty value counts as none, a missing file adds none. Returns the names it added. */
export function loadEnvironmentFile(path: string, environment: NodeJS.ProcessEnv): readonly string[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return [];
    throw new ConfigError(`Expected ${path} to be a readable file of NAME=value lines, got ${code}`, { cause });
  }
  const added: string[] = [];
  for (const [name, value] of Object.entries(parseEnv(text))) {
    if (environment[name] !== undefined || value === undefined || value === '') continue;
    environment[name] = value;
    added.push(name);
  }
  return added;
}
