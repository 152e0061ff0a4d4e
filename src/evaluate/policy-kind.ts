import type { EvaluationOptions } from './evaluation-options.ts';

/** `none`: the environment is a program, which calls no policy. */
export type PolicyKind = 'tokens' | 'chat' | 'none';

export function policyKind({
  environment,
  client,
}: Pick<EvaluationOptions, 'client'> & { readonly environment: { readonly play?: unknown } }): PolicyKind {
  return environment.play === undefined ? client.capabilities.kind : 'none';
}
