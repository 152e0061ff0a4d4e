import { describe, expect, it } from 'vitest';
import { HeldBytes } from '../../../src/server/held-bytes.ts';
import { TinkerRefusal } from '../../../src/server/tinker/tinker-refusal.ts';
import { Futures } from '../../../src/server/tinker/futures.ts';

const done = async () => ({ kind: 'json', body: { said: 'done' } }) as const;
const never = () => new Promise<never>(() => {});
const { signal } = new AbortController();

function futures(options: { readonly mostUnfinished?: number; readonly maxBytes?: number } = {}): Futures {
  const failures = (error: unknown) => expect.unreachable(String(error));
  return new Futures({ onFailure: failures, held: new HeldBytes(options.maxBytes ?? 2 ** 20), ...options });
}

describe('Futures', () => {
  it('gives an id that no other server gives, so that nobody gets the result of a request from before a restart', async () => {
    const [before, after] = [futures(), futures()];
    const id = before.begin(done);
    after.begin(done);
    expect(await before.retrieve(id, 1000, signal)).toEqual({ kind: 'json', body: { said: 'done' } });
    await expect(after.retrieve(id, 1000, signal)).rejects.toMatchObject({ status: 404, message: expect.stringContaining('started again') });
  });

  it('refuses more requests than may wait, until one of them is done', async () => {
    const some = futures({ mostUnfinished: 2 });
    const { promise, resolve } = Promise.withResolvers<void>();
    const first = some.begin(async () => {
      await promise;
      return done();
    });
    some.begin(never);
    expect(() => some.assertRoom()).toThrow(/2 requests wait/);
    resolve();
    await some.retrieve(first, 1000, signal);
    expect(() => some.assertRoom()).not.toThrow();
  });

  it('counts what requests hold until their work is done, also where it fails', async () => {
    const some = futures({ maxBytes: 2 ** 21 });
    const { promise, reject } = Promise.withResolvers<never>();
    const id = some.begin(() => promise, 2 ** 20);
    some.assertRoom(2 ** 20);
    expect(() => some.assertRoom(2 ** 20 + 1)).toThrow(/holds 1 MiB for its callers, of 2 MiB/);
    reject(new TinkerRefusal(400, 'late'));
    expect(await some.retrieve(id, 1000, signal)).toEqual({ kind: 'failed', error: 'late', category: 'user' });
    expect(() => some.assertRoom(2 ** 20 + 1)).not.toThrow();
  });

  it('says at the end of a poll that there is no result yet', async () => {
    const some = futures();
    expect(await some.retrieve(some.begin(never), 1, signal)).toBeNull();
  });
});
