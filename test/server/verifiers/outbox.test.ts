import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Outbox } from '../../../src/server/verifiers/outbox.ts';
import { until } from '../../transport/loopback.ts';

const clientOf = (name: string) => Buffer.from(name);
const message = (client: string, text: string, bytes = 1) => ({ client: clientOf(client), frames: [clientOf(client), text], bytes });

/** A socket below the outbox: clients that are `slow` take nothing until they are taken out of the set. */
function socketOf({ slow = new Set<string>(), gone = new Set<string>(), maxBytes = 2 ** 20 } = {}) {
  const sent: string[] = [];
  const left: string[] = [];
  let atOnce = 0;
  let most = 0;
  const outbox = new Outbox({
    maxBytes,
    onGone: (client) => left.push(Buffer.from(client).toString()),
    async send([client, text]) {
      most = Math.max(most, ++atOnce);
      await Promise.resolve();
      atOnce -= 1;
      const name = String(client);
      if (gone.has(name)) return 'gone';
      if (slow.has(name)) return 'later';
      sent.push(`${name}${String(text)}`);
      return 'sent';
    },
  });
  return { outbox, sent, left, slow, most: () => most };
}

describe('Outbox', () => {
  it('sends {everything, one message at a time, in the order of each client}', async () => {
    const messages = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(messages, fc.subarray(['a', 'b', 'c']), async (clients, slow) => {
        const socket = socketOf({ slow: new Set(slow) });
        for (const [i, client] of clients.entries()) socket.outbox.put(message(client, `-${i}`));
        await Promise.resolve();
        for (const client of slow) socket.slow.delete(client);
        await socket.outbox.flush(10_000);
        for (const client of ['a', 'b', 'c']) {
          const own = clients.flatMap((each, i) => (each === client ? [`${client}-${i}`] : []));
          expect(socket.sent.filter((each) => each.startsWith(client))).toEqual(own);
        }
        expect(socket.most()).toBeLessThan(2);
      }),
    );
  });

  it('sends to others while a client does not read', async () => {
    const socket = socketOf({ slow: new Set(['a']) });
    for (let i = 0; i < 20; i++) for (const client of ['a', 'b']) socket.outbox.put(message(client, `-${i}`));
    await until(() => socket.sent.length === 20);
    expect(socket.sent.every((each) => each.startsWith('b'))).toBe(true);
    socket.slow.delete('a');
    await socket.outbox.flush(10_000);
    expect(socket.sent.slice(20)).toEqual(Array.from({ length: 20 }, (_, i) => `a-${i}`));
    expect(socket.left).toEqual([]);
  });

  it('gives up the client that most of its memory is for, once the bound is reached, and keeps the others', async () => {
    const socket = socketOf({ slow: new Set(['a', 'b']), maxBytes: 100_000 });
    socket.outbox.put(message('b', '-0', 10_000));
    for (let i = 0; i < 9; i++) socket.outbox.put(message('a', `-${i}`, 10_000));
    expect(socket.left).toEqual(['a']);
    socket.slow.clear();
    await socket.outbox.flush(10_000);
    expect(socket.sent).toEqual(['b-0']);
  });

  it('reports a client that has gone once, and drops its messages', async () => {
    const socket = socketOf({ gone: new Set(['a']) });
    for (const client of ['a', 'a', 'b']) socket.outbox.put(message(client, '-'));
    await socket.outbox.flush(10_000);
    expect([socket.left, socket.sent]).toEqual([['a'], ['b-']]);
  });

  it('does not wait longer for a client that does not read than it was asked to', async () => {
    const socket = socketOf({ slow: new Set(['a']) });
    socket.outbox.put(message('a', '-'));
    await socket.outbox.flush(20);
    expect(socket.sent).toEqual([]);
  });
});
