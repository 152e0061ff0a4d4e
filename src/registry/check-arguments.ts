/**
 * Asks an environment whether it takes these arguments, before its rows are loaded, through the optional export `checkArguments` next to `loadEnvironment`. Only a
 * command that plays the environment hours later needs this; any other loads the environment.
 */
import { ConfigError, thrownText, VfError } from '../core/errors.ts';
import { environmentFunction } from './load-export.ts';
import type { LoadContext } from './load-environment.ts';

/**
 * The type of an environment's export `checkArguments`. It gets the arguments unchanged, reads no rows, and throws the error that `loadEnvironment` would throw.
 * @example export const checkArguments: ArgumentsCheck = (args) => void readArguments('my-env', ARGUMENTS, args);
 */
export type ArgumentsCheck = (args: Readonly<Record<string, unknown>>, context: ArgumentsContext) => void | Promise<void>;

export type ArgumentsContext = Pick<LoadContext, 'env' | 'purpose'>;

/** Rejects with ConfigError for arguments that the environment refuses. An environment without the export accepts all here. */
export async function checkEnvironmentArguments(id: string, args: Readonly<Record<string, unknown>>, context: ArgumentsContext): Promise<void> {
  const exported = (await environmentFunction(id, 'checkArguments')) as ArgumentsCheck | null;
  try {
    await exported?.(args, context);
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(`checkArguments of the environment ${id} failed: ${thrownText(cause)}`, { cause });
  }
}
