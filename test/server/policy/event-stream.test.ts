import { describe, expect, it } from 'vitest';
import { EngineLostError } from '../../../src/engine/engine-errors.ts';
import { HeldBytes } from '../../../src/server/held-bytes.ts';
import { eventStream, type EventStreamOptions } from '../../../src/server/policy/event-stream.ts';

/** The actions of the stream other than sending. */
function recorded(produce: EventStreamOptions['produce'], held = new HeldBytes()) {
  const reported: string[] = [];
  const options = {
    produce,
    held,
    onCancel: () => reported.push('cancelled'),
    onRefusal: ({ message }: { readonly message: string }) => reported.push(message),
  };
  return { reported, answer: eventStream(options) };
}

describe('eventStream', () => {
  it('rejects with a failure before the first event', async () => {
    const { reported, answer } = recorded(() => Promise.reject(new EngineLostError('gone')));
    await expect(answer).rejects.toThrow('gone');
    expect(reported).toEqual([]);
  });

  it('reports a failure after the first event as the last event, to the reader and to the operator', async () => {
    const { reported, answer } = recorded(async (send) => {
      send({ part: 1 });
      throw new EngineLostError('gone');
    });
    const lines = (await (await answer).text()).split('\n\n');
    expect(lines).toEqual(['data: {"part":1}', expect.stringMatching(/^data: {"error":{.*gone.*"code":503}}$/), 'data: [DONE]', '']);
    expect(reported).toEqual([expect.stringContaining('gone')]);
  });

  it('says once that its reader has gone, and reports no failure for what ends then', async () => {
    const { promise: left, reject } = Promise.withResolvers<void>();
    const { reported, answer } = recorded(async (send) => {
      send({ part: 1 });
      await left.catch((error: unknown) => {
        send({ part: 2 });
        throw error;
      });
    });
    await (await answer).body!.cancel();
    expect(reported).toEqual(['cancelled']);
    reject(new EngineLostError('gone'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(reported).toEqual(['cancelled']);
  });

  it('holds what its reader has not taken in the account, and cuts a reader that leaves too much', async () => {
    const held = new HeldBytes(4 * 2 ** 20);
    const event = { text: 'x'.repeat(2 ** 20) };
    const { promise: sent, resolve } = Promise.withResolvers<void>();
    const greedy = recorded(async (send) => {
      for (let i = 0; i < 100; i++) send(event);
      resolve();
    }, held);
    const response = await greedy.answer;
    await sent;
    expect([greedy.reported, held.bytes]).toEqual([['cancelled'], 0]);
    await expect(response.text()).rejects.toThrow('The client does not read its events');
    const honest = recorded(async (send) => {
      send(event);
      send(event);
    }, held);
    const answer = await honest.answer;
    expect(held.bytes).toBeGreaterThan(2 ** 21);
    expect((await answer.text()).length).toBeGreaterThan(2 ** 21);
    expect([honest.reported, held.bytes]).toEqual([[], 0]);
  });
});
