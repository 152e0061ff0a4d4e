import { ModelError } from '../core/errors.ts';
import type { TimedModel } from './timed-model.ts';

export interface Budget {
  /** Null for no limit. */
  readonly calls: number | null;
  /** Of prompts and replies together; null for no limit. */
  readonly tokens: number | null;
}

/**
 * Refuses calls once the role's budget is spent, in this process. Calls are exact, each with its retries. Tokens are known after a reply, so that
 * calls under way may spend some more. What a cache answers costs nothing.
 */
export function budgeted(model: TimedModel, budget: Budget, { role }: { readonly role: string }): TimedModel {
  let calls = 0;
  let tokens = 0;
  const assertWithin = (spent: number, limit: number | null, unit: 'calls' | 'tokens') => {
    if (limit === null || spent < limit) return;
    throw new ModelError(
      `Role ${role} has spent its budget of ${limit} ${limit === 1 ? unit.slice(0, -1) : unit}. Raise roles.${role}.budget_${unit}, or remove it to have no limit.`,
      {
        role,
        reason: 'budget',
      },
    );
  };
  return {
    name: model.name,
    async generate(messages, request) {
      assertWithin(calls, budget.calls, 'calls');
      assertWithin(tokens, budget.tokens, 'tokens');
      calls += 1;
      const reply = await model.generate(messages, request);
      tokens += reply.usage.promptTokens + reply.usage.completionTokens;
      return reply;
    },
  };
}
