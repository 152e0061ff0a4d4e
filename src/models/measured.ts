import { CancelledError } from '../core/errors.ts';
import type { RoleTally } from './role-tally.ts';
import type { TimedModel } from './timed-model.ts';

/** Adds every call to the role's tally, except cancelled ones. */
export function measured(model: TimedModel, tally: RoleTally): TimedModel {
  return {
    name: model.name,
    async generate(messages, request) {
      try {
        const reply = await model.generate(messages, request);
        tally.add({ model: model.name, ...reply });
        return reply;
      } catch (error) {
        if (!(error instanceof CancelledError)) tally.addFailure();
        throw error;
      }
    },
  };
}
