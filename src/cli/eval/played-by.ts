/** Which policy plays the environment, where a program is played by none. What an environment is becomes known only once it is loaded. */
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import { SMALLEST_MODEL } from '../../data/bundled-models.ts';
import { FLAGS, type FlagName } from './flags.ts';
import { laptopModelOf, searchedIn } from './laptop-model.ts';
import { type PolicyTarget, resolvePolicyTarget } from './policy-target.ts';
import type { Settings } from './settings.ts';

export interface NamedPolicy {
  readonly target: PolicyTarget;
  /** Why the environment variables name no policy; a program does not need one. */
  readonly problem: ConfigError | null;
}

/** Settings that only a policy heeds. */
const OF_POLICY = [
  'model',
  'provider',
  'api-base-url',
  'api-key-var',
  'api-client-type',
  'header',
  'max-tokens',
  'temperature',
  'sampling-args',
] as const satisfies readonly FlagName[];

/** Throws ConfigError if the settings name a policy that cannot be used. */
export async function namedPolicy(envId: string, settings: Settings): Promise<NamedPolicy> {
  try {
    const bundled = async () => (await laptopModelOf(envId, searchedIn(settings))) ?? SMALLEST_MODEL;
    return { target: await resolvePolicyTarget(settings, process.env, bundled), problem: null };
  } catch (error) {
    // What the user named is refused before the environment is loaded.
    if (!(error instanceof ConfigError) || settings['endpoints-path'] !== undefined || givenFlag(settings) !== null) throw error;
    return { target: { kind: 'program' }, problem: error };
  }
}

/** Throws ConfigError if no policy is named that the environment needs, or one that it does not. */
export function playedBy(environment: Environment, { target, problem }: NamedPolicy, settings: Settings): PolicyTarget {
  if (environment.play === undefined) {
    if (problem !== null) throw problem;
    return target;
  }
  const flag = givenFlag(settings);
  if (flag === null) return { kind: 'program' };
  const { description, choice } = environment.programModels ?? {};
  const asked = description === undefined ? '' : ` (${description})`;
  const remedy = choice === undefined ? 'Leave it out.' : `Leave it out, and choose them with ${choice}.`;
  throw new ConfigError(`${flag} has no effect: ${environment.id} is a program and brings its own models${asked}. ${remedy}`);
}

/** The first setting of a policy, as on the command line; null if there is none. */
function givenFlag(settings: Settings): string | null {
  const name = OF_POLICY.find((each) => settings[each] !== undefined);
  if (name === undefined) return null;
  const flag = FLAGS.find((each) => each.name === name)!;
  return 'letter' in flag ? `-${flag.letter}` : `--${name}`;
}
