import type { Sampling } from '../core/sampling.ts';
import type { TimedModel } from './timed-model.ts';

/** What every request to the model of a role has, whatever the environment asks for. */
export interface RoleRequest {
  /** Replaces the environment's sampling, field by field. @default none */
  readonly sampling?: Partial<Sampling>;
  /** Replaces the number of new tokens that the environment asks for, at least 1. @default that number */
  readonly maxTokens?: number;
}

/** Puts the role's own request over those of the environment, so that the key of a cached reply has it too. */
export function askedWith(model: TimedModel, { sampling, maxTokens }: RoleRequest): TimedModel {
  if (sampling === undefined && maxTokens === undefined) return model;
  return {
    name: model.name,
    generate: (messages, request) =>
      model.generate(messages, {
        ...request,
        ...(maxTokens === undefined ? {} : { maxTokens }),
        ...(sampling === undefined ? {} : { sampling: mergedSampling(request.sampling ?? {}, sampling) }),
      }),
  };
}

function mergedSampling(before: Partial<Sampling>, over: Partial<Sampling>): Partial<Sampling> {
  const extra = { ...before.extra, ...over.extra };
  const leaveOut = [...new Set([...(before.leaveOut ?? []), ...(over.leaveOut ?? [])])];
  return {
    ...before,
    ...over,
    ...(Object.keys(extra).length === 0 ? {} : { extra }),
    ...(leaveOut.length === 0 ? {} : { leaveOut }),
  };
}
