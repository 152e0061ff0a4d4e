import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Fork, MessageGraph } from '../../src/agents/message-graph.ts';
import type { AnsweredTurn } from '../../src/agents/message-key.ts';

function differenceOf(was: string, is: string): string {
  const graph = new MessageGraph<{ readonly answer: { readonly content: string; readonly toolCalls: readonly [] } }>();
  const { node } = graph.place([{ role: 'user', content: was }], []);
  graph.addTurn(node, { answer: { content: 'so', toolCalls: [] } });
  const { fork } = graph.place([{ role: 'user', content: is }], []);
  return (fork as Fork).difference;
}

describe('the difference of a fork', () => {
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
});

describe('MessageGraph', () => {
  it('finds the turn that an assistant message tells, also if the same message was there before the turn was answered', () => {
    const graph = new MessageGraph<{ answer: { readonly content: string; readonly toolCalls: readonly [] } | null }>();
    const question = { role: 'user', content: 'Who?' } as const;
    const told = { role: 'assistant', content: 'A heron.' } as const;
    const turn: { answer: { readonly content: string; readonly toolCalls: readonly [] } | null } = { answer: null };
    const added = graph.addTurn(graph.place([question], []).node, turn);
    expect(graph.place([question, told], []).node.turn).toBeNull();
    turn.answer = { content: 'A heron.', toolCalls: [] };
    expect(graph.place([question, told], []).node).toBe(added);
    expect(graph.place([question, told], []).node).toBe(added);
  });

  it('gives a turn the place of one that was taken back, and two turns never the same name', () => {
    const graph = new MessageGraph<{ answer: null }>();
    const { node } = graph.place([{ role: 'user', content: 'Who?' }], []);
    const [first, second] = [graph.addTurn(node, { answer: null }), graph.addTurn(node, { answer: null })];
    graph.takeBack(first);
    const again = graph.addTurn(node, { answer: null });
    expect([again.path, again.ordinal]).toEqual([first.path, 0]);
    expect([again, second, graph.addTurn(node, { answer: null })].map(({ ordinal }) => ordinal)).toEqual([0, 1, 2]);
    expect(new Set(node.turns.map(({ path }) => path)).size).toBe(3);
  });

  it('keeps a call whose arguments came back in any form, and one that could not be made and has another name; another name for one that could be made is an edit', () => {
    const tools = [{ name: 'find', description: '', parameters: {} }];
    const isTurn = (own: { readonly name: string; readonly arguments: string }, told: { readonly name: string; readonly arguments: string }) => {
      const graph = new MessageGraph<{ readonly answer: AnsweredTurn }>();
      const question = { role: 'user', content: 'Who?' } as const;
      const added = graph.addTurn(graph.place([question], tools).node, { answer: { content: '', toolCalls: [{ id: 'c1', ...own }] } });
      const { node, fork } = graph.place([question, { role: 'assistant', content: '', toolCalls: [{ id: 'c1', ...told }] }], tools);
      return node === added ? true : fork;
    };
    const call = { name: 'find', arguments: '{"q": "heron"}' };
    expect(isTurn(call, { name: 'find', arguments: '{"q":"grey heron"}' })).toBe(true);
    expect(isTurn({ ...call, name: 'look' }, { name: 'invalid', arguments: '{"error":"no such tool"}' })).toBe(true);
    expect(isTurn({ ...call, arguments: '{"q": "her' }, { name: 'invalid', arguments: '{}' })).toBe(true);
    expect(isTurn(call, { name: 'look', arguments: '{"q":"crane"}' })).toEqual({
      kind: 'history',
      at: 1,
      difference: 'message 1 (assistant) has other calls',
    });
  });
});
