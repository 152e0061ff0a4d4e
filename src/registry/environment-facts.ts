/** Facts that an environment states about itself before it is loaded: the optional export `facts` of its module, next to `loadEnvironment`. */
import { ConfigError, thrownText, VfError } from '../core/errors.ts';
import { isObject } from '../schemas/is-object.ts';
import type { FindEnvironmentOptions } from './find-environment.ts';
import { environmentExport } from './load-export.ts';

type Arguments = Readonly<Record<string, unknown>>;

/**
 * The type of an environment's export `facts`. Functions get the arguments unchanged, read no rows, and may throw a ConfigError for wrong ones.
 * @example export const facts: EnvironmentFacts = { dataSets: ['page-world'], fileArguments: { recipe: 'recipe.yaml' } };
 */
export interface EnvironmentFacts {
  /** Names of the bundled data sets that it can train on. @default those of questions */
  readonly dataSets?: readonly string[];
  /**
   * Arguments that name a file with code or settings that it follows, each with the path it takes by default, or null. `vf-score` takes such a file from the
   * user, never from a run. @default none; other files that a run names are recognised by being there
   */
  readonly fileArguments?: Readonly<Record<string, string | null>>;
  /** The sandbox that runs programs with these arguments: `wasi`, `bubblewrap` or `none`; `vf-doctor` starts it. @default it runs no programs */
  readonly executor?: (args: Arguments) => string | Promise<string>;
  /**
   * The bundled corpus that answers the questions because these arguments name none, though it does not belong to their data set; null if there is no such
   * corpus. `vf-doctor` warns of it. @default null
   */
  readonly standInCorpus?: (args: Arguments) => string | null | Promise<string | null>;
}

const KEYS = ['dataSets', 'fileArguments', 'executor', 'standInCorpus'] as const satisfies readonly (keyof EnvironmentFacts)[];

/** The facts of an environment; none if it exports none. Rejects with ConfigError if it cannot be imported, or if they have another shape. */
export async function environmentFacts(id: string, options: FindEnvironmentOptions = {}): Promise<EnvironmentFacts> {
  const facts = (await environmentExport(id, 'facts', options)) ?? {};
  const problem = problemOf(facts);
  if (problem === null) return facts;
  throw new ConfigError(`facts of the environment ${id} ${problem}`);
}

/** As `environmentFacts`, but none for an environment that cannot be imported, which loading it reports. */
export async function factsIfLoaded(id: string): Promise<EnvironmentFacts> {
  return environmentFacts(id).catch((error: unknown) => {
    if (error instanceof ConfigError) return {};
    throw error;
  });
}

/** The value of a fact for these arguments; null if there is no such fact, or if the arguments are wrong, which loading the environment reports. */
export async function factOf<T>(fact: ((args: Arguments) => T | Promise<T>) | undefined, args: Arguments): Promise<T | null> {
  try {
    return (await fact?.(args)) ?? null;
  } catch (cause) {
    if (cause instanceof VfError) return null;
    throw new ConfigError(`A fact of the environment failed: ${thrownText(cause)}`, { cause });
  }
}

function problemOf(facts: unknown): string | null {
  if (!isObject(facts)) return 'must be an object';
  const unknown = Object.keys(facts).find((key) => !(KEYS as readonly string[]).includes(key));
  if (unknown !== undefined) return `must not have the key "${unknown}"; known keys: ${KEYS.join(', ')}`;
  const { dataSets = [], fileArguments = {}, executor, standInCorpus } = facts;
  const isText = (value: unknown) => typeof value === 'string';
  if (!Array.isArray(dataSets) || !dataSets.every(isText)) return 'must give dataSets as a list of names';
  if (!isObject(fileArguments) || !Object.values(fileArguments).every((path) => path === null || isText(path)))
    return 'must give fileArguments as an object of paths and nulls';
  const isCalled = (fact: unknown) => fact === undefined || typeof fact === 'function';
  return isCalled(executor) && isCalled(standInCorpus) ? null : 'must give executor and standInCorpus as functions';
}
