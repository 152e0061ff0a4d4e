import { ConfigError } from '../../core/errors.ts';
import type { CommandContext } from '../command-line.ts';
import { loadEnvironmentFile } from '../../sessions/environment/environment-file.ts';

/** The key that clients must send, from the variable that --api-key-var names; null if none is required. */
export function readKey(variable: string | undefined, context: CommandContext): string | null {
  if (variable === undefined) return null;
  loadEnvironmentFile('.env', process.env);
  const key = process.env[variable];
  if (key === undefined || key === '')
    throw new ConfigError(
      `The environment variable ${variable} (--api-key-var) holds no API key; set it or put it in ./.env, or leave --api-key-var out`,
    );
  context.secrets.add(key);
  return key;
}
