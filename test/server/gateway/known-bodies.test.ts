import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readExactJson } from '../../../src/core/read-json.ts';
import { bodyCache, KnownBodies } from '../../../src/server/gateway/known-bodies.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const message = (role: string, content: unknown) => ({ role, content });
const items = (value: unknown, name = 'messages') => (value as Record<string, readonly unknown[]>)[name]!;

describe('KnownBodies', () => {
  it('reads what JSON.parse reads, whatever was read before {value, spacing, error}', () => {
    const text = fc.oneof(
      fc.string(),
      fc.constantFrom('a"]}', '\\', '{"messages":[', '\uD83D\uDE42', '],"messages":[{"role":"x"}]', '12345678901234567'),
    );
    const content = fc.oneof(text, fc.array(fc.record({ type: fc.constant('text'), text })), fc.constant(null));
    const list = fc.array(fc.oneof({ weight: 9, arbitrary: fc.record({ role: text, content }) }, { weight: 1, arbitrary: fc.jsonValue() }), {
      maxLength: 6,
    });
    const head = fc.constantFrom<readonly [string, unknown][]>(
      [],
      [['model', 'm']],
      [
        ['tools', [{ messages: [1] }]],
        ['model', 'm'],
      ],
    );
    const tail = fc.constantFrom<readonly [string, unknown][]>([], [['stream', true]], [['input', [{ a: 1 }]]], [['metadata', { messages: [] }]]);
    const spacing = fc.constantFrom(undefined, 1);
    // A conversation: each list goes on with the one before up to some item.
    const conversation = fc.array(fc.tuple(fc.nat(8), list, head, tail, spacing, fc.constantFrom('messages', 'input')), {
      minLength: 2,
      maxLength: 8,
    });
    fc.assert(
      fc.property(conversation, fc.constantFrom('', ' ', ',"messages":[]', '}', ',{', '\u0000'), (requests, spoiled) => {
        const bodies = new KnownBodies(bodyCache());
        let before: readonly unknown[] = [];
        for (const [i, [kept, added, first, last, space, name]] of requests.entries()) {
          before = [...before.slice(0, kept), ...added];
          const whole = JSON.stringify(Object.fromEntries([...first, [name, before], ...last]), null, space);
          const sent = i % 3 === 2 ? `${whole.slice(0, -1)}${spoiled}}` : whole;
          const outcome = (read: () => unknown) => {
            try {
              return { value: read() };
            } catch (error) {
              return { error: (error as Error).name };
            }
          };
          expect(outcome(() => bodies.read(bytes(sent)))).toEqual(outcome(() => readExactJson(sent)));
          const isWhole = spoiled === '' || i % 3 !== 2;
          expect(isWhole ? JSON.stringify(bodies.read(bytes(sent))) : '').toBe(isWhole ? JSON.stringify(readExactJson(whole)) : '');
        }
      }),
      { numRuns: 60 },
    );
  });

  it('gives the same objects for the items of which the bytes are the same', () => {
    const bodies = new KnownBodies(bodyCache());
    const list = [message('system', 'Be "brief".'), message('user', 'Who?'), message('assistant', 'Nobody knows.')];
    const read = (messages: readonly unknown[]) => items(bodies.read(bytes(JSON.stringify({ model: 'm', messages, tools: [] }))));
    const first = read(list.slice(0, 2));
    const second = read(list);
    expect(second.slice(0, 2).map((item, i) => item === first[i])).toEqual([true, true]);
    const forked = read([list[0], message('user', 'Who else?')]);
    expect([forked[0] === first[0], forked[1] === first[1]]).toEqual([true, false]);
    // Both conversations are still known.
    expect(read([...list, message('user', 'Sure?')])[2]).toBe(second[2]);
    expect(read([list[0], message('user', 'Who else?'), list[2]])[1]).toBe(forked[1]);
  });

  it('does not take a second list of the same name for what goes on with the first', () => {
    const bodies = new KnownBodies(bodyCache());
    bodies.read(bytes('{"messages":[{"a":1},{"a":2}]}'));
    expect(bodies.read(bytes('{"messages":[{"a":1},{"a":2}],"messages":[{"a":3}]}'))).toEqual({ messages: [{ a: 3 }] });
    expect(bodies.read(bytes('{"messages":[{"a":1},{"a":2}],"mess\\u0061ges":[{"a":4}]}'))).toEqual({ messages: [{ a: 4 }] });
    expect(bodies.read(bytes('{"messages":[{"a":1},{"a":2},{"a":5}]}'))).toEqual({ messages: [{ a: 1 }, { a: 2 }, { a: 5 }] });
  });

  it('refuses bytes that are not UTF-8, also after a beginning that is known', () => {
    const bodies = new KnownBodies(bodyCache());
    bodies.read(bytes('{"messages":[{"a":"é"}]}'));
    const broken = bytes('{"messages":[{"a":"é"},{"a":"__"}]}');
    broken.set([0xc3, 0x28], broken.length - 7);
    expect(() => bodies.read(broken)).toThrow(TypeError);
  });

  it('refuses more lists, keys and levels than a request may have, in what is known and what is new together', () => {
    const bodies = new KnownBodies(bodyCache());
    const read = (...sent: readonly string[]) => bodies.read(bytes(`{"messages":[${sent.join(',')}]}`));
    const half = `[${'[],'.repeat(600_000)}[]]`;
    const commas = JSON.stringify(','.repeat(2 ** 20));
    read(half);
    expect(() => read(half, half)).toThrow(new RangeError('has more than 1,048,576 lists, objects and keys'));
    expect(() => read(half, '['.repeat(70))).toThrow(RangeError);
    expect(() => read(half, `{${Array.from({ length: 70_000 }, (_, i) => `"${i}":0`).join(',')}}`)).toThrow(/more than 65,536 keys/);
    expect(read(half, '1')).toMatchObject({ messages: [expect.anything(), 1] });
    // Text has no parts, whatever is in it.
    read(commas);
    expect(read(commas, '{"a":1}')).toMatchObject({ messages: [expect.any(String), { a: 1 }] });
  });

  it('holds no more bytes than it may, for all sessions together, and nothing once a session has ended', () => {
    const cache = bodyCache(2 ** 20);
    const sessions = Array.from({ length: 10 }, () => new KnownBodies(cache));
    for (const [i, session] of sessions.entries())
      for (let k = 0; k < 6; k++) session.read(bytes(JSON.stringify({ messages: [message('user', `${i} ${k} ${'x'.repeat(40_000)}`)] })));
    expect(cache.calculatedSize).toBeLessThanOrEqual(2 ** 20);
    expect(cache.size).toBeGreaterThan(5);
    // Lists take more than their text.
    sessions[0]!.read(bytes(`{"messages":[{"a":[${'[],'.repeat(6000)}[]]}]}`));
    expect(cache.calculatedSize).toBeLessThanOrEqual(2 ** 20);
    expect(cache.size).toBeLessThan(6);
    for (const session of sessions) session.forget();
    expect(cache.size).toBe(0);
  });
});
