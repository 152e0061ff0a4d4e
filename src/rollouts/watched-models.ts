/** Keeps the failures of models by role, also those that an agent swallows: its answer would be one without the judge or the critic that it should have asked. */
import { canonicalJson } from '../core/canonical-json.ts';
import type { Model, Models } from '../core/model.ts';
import type { OpenFailures } from './open-failures.ts';

/** The same question, answered later, makes a failure good. A call that the caller stops has not failed. */
export function watchedModels(models: Models, failures: OpenFailures): Models {
  return Object.fromEntries(Object.entries(models).map(([role, model]) => [role, watchedModel(model, { role, failures })]));
}

function watchedModel(model: Model, { role, failures }: { readonly role: string; readonly failures: OpenFailures }): Model {
  return {
    ...(model.isRemote === undefined ? {} : { isRemote: model.isRemote }),
    name: model.name,
    async generate(messages, request) {
      const since = failures.now();
      const asked = canonicalJson([role, messages]);
      try {
        const reply = await model.generate(messages, request);
        failures.answered(asked, since);
        return reply;
      } catch (error) {
        if (!request.signal.aborted) failures.add(asked, { error, phase: 'environment' });
        throw error;
      }
    },
  };
}
