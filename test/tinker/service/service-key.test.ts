import { describe, expect, it } from 'vitest';
import { cancelled } from '../../../src/core/abort.ts';
import { CancelledError } from '../../../src/core/errors.ts';
import { ServiceKey } from '../../../src/tinker/service/service-key.ts';

describe('ServiceKey', () => {
  it('goes on fetching a token for the others when the caller that began is cancelled', async () => {
    const token = Promise.withResolvers<string>();
    const key = new ServiceKey('tml-key', (signal) => {
      signal.addEventListener('abort', () => token.reject(cancelled(signal)));
      return token.promise;
    });
    const caller = new AbortController();
    const first = key.current(caller.signal);
    const second = key.current(new AbortController().signal);
    caller.abort();
    await expect(first).rejects.toThrow(CancelledError);
    token.resolve('jwt');
    await expect(second).resolves.toBe('jwt');
  });

  it('ends what it fetches when it is closed', async () => {
    const key = new ServiceKey('tml-key', (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(cancelled(signal)))));
    const waiting = key.current(new AbortController().signal);
    key.close();
    await expect(waiting).rejects.toThrow(CancelledError);
  });
});
