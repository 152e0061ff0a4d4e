import type { AskedRecord, Model } from '../core/model.ts';
import type { TimedModel } from './timed-model.ts';

/** Passes a record of every answered call to `add` and returns the reply without its timings. */
export function recorded(model: TimedModel, { role, add }: { readonly role: string; readonly add: (record: AskedRecord) => void }): Model {
  return {
    name: model.name,
    async generate(given, request) {
      // The caller may add to its list during the call and afterwards.
      const messages = [...given];
      const { ms, waitMs, attempts, ...reply } = await model.generate(messages, request);
      add({ role, model: model.name, ...reply, ms, waitMs, attempts, messages });
      return reply;
    },
  };
}
