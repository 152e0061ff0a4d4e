import { ModelError } from '../core/errors.ts';
import type { TimedModel } from './timed-model.ts';

export interface Budget {
  /** Maximum number of calls; null for no limit. */
  readonly calls: number | null;
  /** Maximum number of tokens in prompts and replies together; null for no limit. */
  readonly tokens: number | null;
}

/**
 * Throws ModelError once the role's budget for this process is spent. A call counts once, whatever its retries. Tokens are counted when the reply
 * arrives, so calls in flight may exceed the budget. Cached replies cost nothing.
 */
export function budgeted(model: TimedModel, budget: Budget, { role }: { readonly role: string }): TimedModel {
  let calls = 0;
  let tokens = 0;
  const assertWithin = (spent: number, limit: number | null, unit: 'calls' | 'tokens') => {
    if (limit === null || spent < limit) return;
    throw new ModelError(
      `Role ${role} has spent its budget of ${limit} ${limit === 1 ? unit.slice(0, -1) : unit}. Raise roles.${role}.budget_${unit}, or remove it for no limit.`,
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
