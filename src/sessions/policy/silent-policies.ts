/** Policies that sample nothing. */
import { NO_POLICY } from '../../clients/no-policy.ts';
import { PolicyError } from '../../core/errors.ts';
import { programName } from '../../rollouts/play-agent.ts';
import type { OpenedPolicy, OpenPolicyOptions } from './open-policy.ts';

/** The policy of a program, which asks models of its own. */
export function openNoPolicy(program: OpenPolicyOptions['environment']): OpenedPolicy {
  return {
    client: NO_POLICY,
    model: programName(program),
    kind: 'program',
    baseUrl: null,
    description: program.programModels === undefined ? 'models of its own' : program.programModels.description,
    notices: [],
    async [Symbol.asyncDispose]() {},
  };
}

/** The policy of a model that the run would download: a dry run describes it, and it cannot play. */
export function openAbsent(model: string): OpenedPolicy {
  return {
    client: {
      name: model,
      // Whether its template knows tool calls is known once it is here.
      capabilities: { kind: 'tokens', maxModelLen: null, tokenizerHash: null, logProbsMode: 'raw', isEmbedded: true, toolCalls: 'structured' },
      lease: () => Promise.reject(new PolicyError(`${model} is not on this machine`)),
      close: async () => {},
    },
    model,
    kind: 'absent',
    baseUrl: null,
    description: 'in this process, which downloads it from the hub',
    notices: [],
    async [Symbol.asyncDispose]() {},
  };
}
