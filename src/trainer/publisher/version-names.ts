import { ConfigError } from '../../core/errors.ts';

/**
 * Names each attempt to publish a version: `run-v000012`, then `run-v000012-2`. The server serves the adapter under that name, and the adapter's directory
 * has the name of the attempt for which it was written. A name is never used twice: a server may still hold the adapter of a failed attempt.
 */
export class VersionNames {
  readonly #runName: string;
  readonly #attempts = new Map<number, number>();

  /** Throws ConfigError if servers could not serve such a name. */
  constructor(runName: string) {
    // It becomes part of a model name, which some servers use as a path.
    if (!/^[\w][\w.-]{0,99}$/.test(runName))
      throw new ConfigError(`The run name may have up to 100 letters, digits, dots, dashes and underscores, got ${JSON.stringify(runName)}`);
    this.#runName = runName;
  }

  next(version: number): string {
    const attempt = (this.#attempts.get(version) ?? 0) + 1;
    this.#attempts.set(version, attempt);
    return `${this.#runName}-v${String(version).padStart(6, '0')}${attempt === 1 ? '' : `-${attempt}`}`;
  }
}
