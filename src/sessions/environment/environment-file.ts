/** `./.env`: environment variables in a file. Variables that the process already has take precedence. */
import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { ConfigError } from '../../core/errors.ts';

/** Adds the file's variables that `environment` lacks and returns their names. Empty values are ignored; a missing file adds none. */
export function loadEnvironmentFile(path: string, environment: NodeJS.ProcessEnv): readonly string[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return [];
    throw new ConfigError(`Cannot read ${path}: ${code}; it must be a readable file of NAME=value lines`, { cause });
  }
  const added: string[] = [];
  for (const [name, value] of Object.entries(parseEnv(text))) {
    if (environment[name] !== undefined || value === undefined || value === '') continue;
    environment[name] = value;
    added.push(name);
  }
  return added;
}
