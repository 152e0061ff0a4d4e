import type { Limiter } from '../core/limiter.ts';
import type { TimedModel } from './timed-model.ts';

/** Waits for one of the role's slots and measures the wait. A call holds its slot through its retries, so that an overloaded server gets fewer calls. */
export function limited(model: TimedModel, limiter: Limiter): TimedModel {
  return {
    name: model.name,
    async generate(messages, request) {
      const askedMs = performance.now();
      let waitMs = 0;
      using wait = request.onWait?.();
      const reply = await limiter.run(() => {
        wait?.[Symbol.dispose]();
        waitMs = performance.now() - askedMs;
        return model.generate(messages, request);
      }, request.signal);
      return { ...reply, waitMs };
    },
  };
}
