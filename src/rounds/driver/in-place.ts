import { ConfigError } from '../../core/errors.ts';

/** Runs a check. Its ConfigError names the place first, such as `[bucket] of rounds.toml`. */
export async function inPlace<T>(place: string, check: () => T | Promise<T>): Promise<T> {
  try {
    return await check();
  } catch (cause) {
    if (!(cause instanceof ConfigError)) throw cause;
    throw new ConfigError(`${place}: ${cause.message}`, { cause });
  }
}
