import { describe, expect, it } from 'vitest';
import { EngineLostError } from '../../../src/engine/engine-errors.ts';
import { eventStream, type EventStreamOptions } from '../../../src/server/policy/event-stream.ts';

/** What the stream did beside sending. */
function recorded(produce: EventStreamOptions['produce']) {
  const told: string[] = [];
  const options = { produce, onCancel: () => told.push('cancelled'), onRefusal: ({ message }: { readonly message: string }) => told.push(message) };
  return { told, answer: eventStream(options) };
}

describe('eventStream', () => {
  it('rejects with what fails before the first event', async () => {
    const { told, answer } = recorded(() => Promise.reject(new EngineLostError('gone')));
    await expect(answer).rejects.toThrow('gone');
    expect(told).toEqual([]);
  });

  it('tells a failure after the first event as the last one, to the reader and to whoever looks after the server', async () => {
    const { told, answer } = recorded(async (send) => {
      send({ part: 1 });
      throw new EngineLostError('gone');
    });
    const lines = (await (await answer).text()).split('\n\n');
    expect(lines).toEqual(['data: {"part":1}', expect.stringMatching(/^data: {"error":{.*gone.*"code":503}}$/), 'data: [DONE]', '']);
    expect(told).toEqual([expect.stringContaining('gone')]);
  });

  it('says once that its reader has gone, and blames nobody for what ends then', async () => {
    const { promise: left, reject } = Promise.withResolvers<void>();
    const { told, answer } = recorded(async (send) => {
      send({ part: 1 });
      await left.catch((error: unknown) => {
        send({ part: 2 });
        throw error;
      });
    });
    await (await answer).body!.cancel();
    expect(told).toEqual(['cancelled']);
    reject(new EngineLostError('gone'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(told).toEqual(['cancelled']);
  });
});
