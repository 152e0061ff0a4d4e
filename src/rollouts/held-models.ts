/** Keeps the calls of models by role from using up a deadline that is not theirs. A role has deadlines and a queue of its own. */
import type { Model, Models } from '../core/model.ts';
import type { RunningDeadline } from './deadline.ts';

export interface HeldModelsOptions {
  /** Stops the deadline. */
  readonly hold: RunningDeadline['hold'];
  /** When: `waits`, while a call waits for one of the role's slots; `calls`, until a call ends. */
  readonly during: 'waits' | 'calls';
}

export function heldModels(models: Models, options: HeldModelsOptions): Models {
  return Object.fromEntries(Object.entries(models).map(([role, model]) => [role, heldModel(model, options)]));
}

function heldModel(model: Model, { hold, during }: HeldModelsOptions): Model {
  return {
    name: model.name,
    async generate(messages, request) {
      if (during === 'waits') return model.generate(messages, { ...request, onWait: hold });
      using _ = hold();
      return await model.generate(messages, request);
    },
  };
}
