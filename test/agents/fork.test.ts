import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { messageFork, toolsFork } from '../../src/agents/fork.ts';
import type { Message } from '../../src/core/message.ts';
import type { ToolSpec } from '../../src/core/tool-calls.ts';

function differenceOf(was: string, is: string): string {
  return messageFork(0, { role: 'user', content: was }, { role: 'user', content: is }).difference;
}

describe('messageFork', () => {
  it('shows whole words, so that a secret on the cut is known to redaction', () => {
    const secret = 'sk-0123456789-0123456789-0123456789';
    const filler = 'word '.repeat(10);
    expect(differenceOf(`${filler}the key ${secret} is new`, `${filler}the key sk-0999 is old`)).toBe(
      `message 0 (user) was "${secret} is new" and is "sk-0999 is old" from character ${filler.length + 12} on`,
    );
    expect(differenceOf(`a ${filler}${secret} b`, 'c')).toContain(secret);
  });

  it('has no part of a word that it does not show whole {any texts}', () => {
    const words = fc.array(fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 700 }), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(words, words, (was, is) => {
        fc.pre(was.join(' ') !== is.join(' '));
        const shown = [...differenceOf(was.join(' '), is.join(' ')).matchAll(/"([^"]*)"/g)].flatMap(([, text]) =>
          text!.split(' ').filter((word) => word !== ''),
        );
        for (const word of shown) expect([...was, ...is]).toContain(word);
      }),
    );
  });

  it.each([
    ['is gone', { role: 'user', content: 'b' }, null, 'message 3 (user) was there and is gone'],
    [
      'has another role',
      { role: 'user', content: 'b' },
      { role: 'assistant', content: 'b' },
      'message 3 was of the role user and is of the role assistant',
    ],
    ['calls something else', calling('a'), calling('b'), 'message 3 (assistant) has other calls'],
    ['answers another call', result('c1'), result('c2'), 'message 3 (tool) answers another call'],
    ['shows another image', seen('1'), seen('2'), 'message 3 (user) has other images'],
  ] as [string, Message, Message | null, string][])('names what differs where a message %s', (_, was, is, difference) => {
    expect(messageFork(3, was, is)).toEqual({ kind: 'history', at: 3, difference });
  });
});

function calling(q: string): Message {
  return { role: 'assistant', content: q === 'a' ? 'So.' : 'So. ', toolCalls: [{ id: q, name: 'f', arguments: '{}' }] };
}

function result(toolCallId: string): Message {
  return { role: 'tool', content: 'ok', toolCallId };
}

function seen(sha256: string): Message {
  return { role: 'user', content: [{ type: 'image', image: { sha256 } as never }] };
}

const [look, find, search] = ['look', 'find', 'search'].map((name): ToolSpec => ({ name, description: name, parameters: {} })) as [
  ToolSpec,
  ToolSpec,
  ToolSpec,
];

describe('toolsFork', () => {
  it.each([
    [[], [look], 'tools are offered where there were none: look'],
    [[look], [], 'no tools are offered'],
    [[look], [look, find], 'other tools are offered: with find'],
    [[look, find], [look], 'other tools are offered: without find'],
    [[look, find], [search], 'other tools are offered: with search, without look, find'],
    [[look, find], [find, look], 'the same tools are offered in another order'],
    [[look], [{ ...look, description: 'Looks.' }], 'a tool has another description or other parameters'],
  ])('says how the tools changed', (was, is, difference) => {
    expect(toolsFork(was, is)).toEqual({ kind: 'tools', at: 0, difference });
  });
});
