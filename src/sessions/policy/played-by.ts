/** Chooses the policy that plays the environment; one that asks models of its own has none. The kind of an environment is known only once it is loaded. */
import { needsNoPolicy } from '../../core/agent-env.ts';
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import { SMALLEST_MODEL } from '../../data/bundled-models.ts';
import { embeddedModel } from './embedded-model.ts';
import type { EvaluationRequest } from '../evaluation/evaluation-request.ts';
import type { Setting, SettingNames } from '../setting-names.ts';
import { laptopModelOf, searchedIn } from './laptop-model.ts';
import type { PolicySpec } from './policy-spec.ts';
import { type PolicyContext, type PolicyTarget, resolvePolicyTarget } from './policy-target.ts';

export interface NamedPolicy {
  readonly target: PolicyTarget;
  /** The reason why the settings or the environment variables name no policy; an environment that asks models of its own does not need one. */
  readonly problem: ConfigError | null;
}

/** Settings that have an effect only on a policy. */
const OF_POLICY = [
  'languageModel',
  'model',
  'provider',
  'baseUrl',
  'apiKeyVar',
  'apiKey',
  'clientType',
  'stream',
  'headers',
] as const satisfies readonly (keyof PolicySpec)[];
const OF_SAMPLING = [
  'maxTokens',
  'temperature',
  'topP',
  'sampling',
  'overrideSampling',
  'strictStops',
] as const satisfies readonly (keyof EvaluationRequest)[];

type Context = Pick<PolicyContext, 'variables' | 'names'>;
type Played = Pick<Environment, 'id' | 'play' | 'asksPolicy' | 'programModels' | 'roles'>;

/** Throws ConfigError for endpoints that cannot be read. */
export async function namedPolicy(request: EvaluationRequest, context: Context): Promise<NamedPolicy> {
  const { environment, policy = {} } = request;
  try {
    const bundledModel = async () => (await laptopModelOf(environment, searchedIn(request))) ?? SMALLEST_MODEL;
    const target = await resolvePolicyTarget(policy, { ...context, bundledModel });
    if (target.kind === 'embedded') embeddedModel(target.model, context);
    return { target, problem: null };
  } catch (error) {
    // Reported once the environment is loaded: if it asks models of its own, settings of a policy have no effect, and correcting them would not help.
    if (!(error instanceof ConfigError) || (policy.endpointsPath !== undefined && givenSettings(request).length === 0)) throw error;
    return { target: { kind: 'program' }, problem: error };
  }
}

/** The fault of the policy that the caller names, for an environment that does not load; null if there is none. */
export function refusalOf({ problem }: NamedPolicy, request: EvaluationRequest): ConfigError | null {
  return givenSettings(request).length === 0 ? null : problem;
}

/** Throws ConfigError if the environment needs a policy and none is named, or if one is named that it does not need. */
export function playedBy(environment: Played, { target, problem }: NamedPolicy, request: EvaluationRequest, names: SettingNames): PolicyTarget {
  if (!needsNoPolicy(environment)) {
    if (problem !== null) throw problem;
    return target;
  }
  const settings: readonly Setting[] = [...(target.kind === 'client' ? (['policy'] as const) : []), ...givenSettings(request)];
  const given = settings.map(names.name);
  if (given.length === 0) return { kind: 'program' };
  const [verb, them] = given.length === 1 ? ['has', 'it'] : ['have', 'them'];
  const choice = choiceText(environment, names);
  const remedy = choice === null ? `Leave ${them} out.` : `Leave ${them} out, and choose the models with ${choice}.`;
  throw new ConfigError(`${given.join(' and ')} ${verb} no effect: ${environment.id} ${modelsText(environment)}. ${remedy}`);
}

function modelsText({ programModels, roles = {} }: Played): string {
  if (programModels === undefined) return 'asks models of its own';
  if (programModels.description !== null) return `asks models of its own (${programModels.description})`;
  return Object.keys(roles).length === 0 ? 'asks no model' : 'asks only the models of its roles';
}

/** The way in which a user chooses the program's models; null if that is not known. */
function choiceText({ programModels, roles = {} }: Played, names: SettingNames): string | null {
  const [role] = Object.keys(roles);
  return programModels?.choice ?? (role === undefined ? null : names.role(role, 'MODEL@URL'));
}

function givenSettings(request: EvaluationRequest): readonly Setting[] {
  const { policy = {} } = request;
  return [...OF_POLICY.filter((setting) => policy[setting] !== undefined), ...OF_SAMPLING.filter((setting) => request[setting] !== undefined)];
}
