import { ConfigError } from '../core/errors.ts';
import type { AskedRecord, Model } from '../core/model.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { kindOrNumber } from '../schemas/kind-of.ts';
import type { TimedModel } from './timed-model.ts';

const CALL = 'generate(messages, { maxTokens, signal }), with the signal that the environment or the reward function is given';

/** No compiler has checked the code of an environment. */
function requestProblem(messages: unknown, request: unknown): string | null {
  const { maxTokens, signal } = fieldsOf(request);
  if (!Array.isArray(messages)) return 'messages must be a list';
  if (!isObject(signal) || !('aborted' in signal)) return `signal must be an AbortSignal, got ${kindOrNumber(signal)}`;
  return Number.isSafeInteger(maxTokens) && (maxTokens as number) > 0
    ? null
    : `maxTokens must be a whole number of at least 1, got ${kindOrNumber(maxTokens)}`;
}

/** Passes a record of every answered call to `add` and returns the reply without its timings. */
export function recorded(model: TimedModel, { role, add }: { readonly role: string; readonly add: (record: AskedRecord) => void }): Model {
  return {
    name: model.name,
    async generate(given, request) {
      const problem = requestProblem(given, request);
      if (problem !== null) throw new ConfigError(`The environment asked the model of role ${role} wrongly: ${problem}. Call ${CALL}.`);
      // The caller may add to its list during the call and afterwards.
      const messages = [...given];
      const { ms, waitMs, attempts, ...reply } = await model.generate(messages, request);
      add({ role, model: model.name, ...reply, ms, waitMs, attempts, messages });
      return reply;
    },
  };
}
