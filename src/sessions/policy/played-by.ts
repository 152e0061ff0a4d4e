/** Which policy plays the environment, where a program is played by none. What an environment is becomes known only once it is loaded. */
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import { SMALLEST_MODEL } from '../../data/bundled-models.ts';
import { embeddedModel } from './embedded-model.ts';
import { FLAGS, type FlagName } from '../../cli/eval/flags.ts';
import { laptopModelOf, searchedIn } from './laptop-model.ts';
import { type PolicyTarget, resolvePolicyTarget } from './policy-target.ts';
import type { Settings } from '../../cli/eval/settings.ts';

export interface NamedPolicy {
  readonly target: PolicyTarget;
  /** Why the flags or the environment variables name no policy; a program does not need one. */
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

/** Throws ConfigError for endpoints that cannot be read. */
export async function namedPolicy(envId: string, settings: Settings): Promise<NamedPolicy> {
  try {
    const bundled = async () => (await laptopModelOf(envId, searchedIn(settings))) ?? SMALLEST_MODEL;
    const target = await resolvePolicyTarget(settings, process.env, bundled);
    if (target.kind === 'embedded') embeddedModel(target.model);
    return { target, problem: null };
  } catch (error) {
    // Reported once the environment is loaded: if it is a program, flags of a policy have no effect, and correcting them would not help.
    if (!(error instanceof ConfigError) || (settings['endpoints-path'] !== undefined && givenFlags(settings).length === 0)) throw error;
    return { target: { kind: 'program' }, problem: error };
  }
}

/** What is wrong with the policy that the command names, for an environment that does not load; null if nothing is. */
export function refusalOf({ problem }: NamedPolicy, settings: Settings): ConfigError | null {
  return givenFlags(settings).length === 0 ? null : problem;
}

/** Throws ConfigError if no policy is named that the environment needs, or one that it does not. */
export function playedBy(environment: Environment, { target, problem }: NamedPolicy, settings: Settings): PolicyTarget {
  if (environment.play === undefined) {
    if (problem !== null) throw problem;
    return target;
  }
  const flags = givenFlags(settings);
  if (flags.length === 0) return { kind: 'program' };
  const [verb, them] = flags.length === 1 ? ['has', 'it'] : ['have', 'them'];
  const choice = choiceText(environment);
  const remedy = choice === null ? `Leave ${them} out.` : `Leave ${them} out, and choose the models with ${choice}.`;
  throw new ConfigError(`${flags.join(' and ')} ${verb} no effect: ${environment.id} is a program ${modelsText(environment)}. ${remedy}`);
}

function modelsText({ programModels, roles = {} }: Environment): string {
  if (programModels === undefined) return 'and brings its own models';
  if (programModels.description !== null) return `and brings its own models (${programModels.description})`;
  return Object.keys(roles).length === 0 ? 'that asks no model' : 'whose models are those of its roles';
}

/** How a user chooses the program's models; null if that is not known. */
function choiceText({ programModels, roles = {} }: Environment): string | null {
  const [role] = Object.keys(roles);
  return programModels?.choice ?? (role === undefined ? null : `--role ${role}=MODEL@URL`);
}

/** The settings of a policy, as on the command line. */
function givenFlags(settings: Settings): readonly string[] {
  return OF_POLICY.filter((name) => settings[name] !== undefined).map((name) => {
    const flag = FLAGS.find((each) => each.name === name)!;
    return 'letter' in flag ? `-${flag.letter}` : `--${name}`;
  });
}
