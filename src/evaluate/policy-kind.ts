import { needsNoPolicy } from '../core/agent-env.ts';
import type { Environment } from '../core/environment.ts';
import type { EvaluationOptions } from './evaluation-options.ts';

/** `none`: the environment asks models of its own. */
export type PolicyKind = 'tokens' | 'chat' | 'none';

export function policyKind({
  environment,
  client,
}: Pick<EvaluationOptions, 'client'> & { readonly environment: Pick<Environment, 'play' | 'asksPolicy'> }): PolicyKind {
  return needsNoPolicy(environment) ? 'none' : client.capabilities.kind;
}
