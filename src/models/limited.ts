import type { Limiter } from '../core/limiter.ts';
import type { TimedModel } from './timed-model.ts';

/** Waits for one of the role's slots, and says how long. A slot is held through the retries of its call: a server that struggles gets fewer calls. */
export function limited(model: TimedModel, limiter: Limiter): TimedModel {
  return {
    name: model.name,
    async generate(messages, request) {
      const askedMs = performance.now();
      let waitMs = 0;
      const reply = await limiter.run(() => {
        waitMs = performance.now() - askedMs;
        return model.generate(messages, request);
      }, request.signal);
      return { ...reply, waitMs };
    },
  };
}
