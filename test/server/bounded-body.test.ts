import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it, vi } from 'vitest';
import { BodyBudget } from '../../src/server/bounded-body.ts';

const PIECES = 150_000;
const LIMITS = { maxBodyBytes: 2 ** 20, maxTotalBytes: 2 ** 20, bodyTimeoutMs: 60_000 };

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const heapBytes = () => (collectGarbage(), process.memoryUsage().heapUsed);

function requestOf(body: ReadableStream<Uint8Array>): Request {
  return new Request('http://127.0.0.1/', { method: 'POST', body, duplex: 'half' });
}

describe('BodyBudget', () => {
  it('holds a byte for each byte of a body that arrives in pieces of one', async () => {
    const sent = Promise.withResolvers<void>();
    const end = Promise.withResolvers<void>();
    let left = PIECES;
    const body = new ReadableStream<Uint8Array>({
      async pull(stream) {
        if (--left >= 0) return stream.enqueue(Buffer.from('x'));
        sent.resolve();
        await end.promise;
        stream.close();
      },
    });
    const before = heapBytes();
    const read = new BodyBudget(LIMITS).withBody(requestOf(body), async (outcome) => outcome);
    await sent.promise;
    // A list of the pieces would take hundreds of bytes for each.
    expect((heapBytes() - before) / PIECES).toBeLessThan(30);
    end.resolve();
    expect(await read).toEqual({ ok: true, text: 'x'.repeat(PIECES) });
  });

  it('gives up a body that goes on for too long, whether it stands still or trickles', async () => {
    const still = new ReadableStream<Uint8Array>({ start: (stream) => stream.enqueue(Buffer.from('x')) });
    const trickle = new ReadableStream<Uint8Array>({
      async pull(stream) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        stream.enqueue(Buffer.from('x'));
      },
    });
    for (const body of [still, trickle])
      expect(await new BodyBudget({ ...LIMITS, bodyTimeoutMs: 20 }).withBody(requestOf(body), async (outcome) => outcome)).toEqual({
        ok: false,
        status: 408,
        detail: 'The body did not arrive within 20 ms; send it faster',
      });
  });

  it('gives the room of bodies that do not arrive to one that does', async () => {
    const budget = new BodyBudget(LIMITS);
    const most = Buffer.alloc(2 ** 20 - 1, ' ');
    const held = new ReadableStream<Uint8Array>({ start: (stream) => stream.enqueue(most) });
    const slow = budget.withBody(requestOf(held), async (outcome) => outcome);
    const small = () => budget.withBody(new Request('http://127.0.0.1/', { method: 'POST', body: '{}   ' }), async (outcome) => outcome);
    await vi.waitFor(async () => expect(await small()).toEqual({ ok: true, text: '{}   ' }), { timeout: 20_000 });
    expect(await slow).toMatchObject({ ok: false, status: 503, detail: expect.stringMatching(/^The server had no room for this body/) as string });
  });
});
