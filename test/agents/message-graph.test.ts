import { describe, expect, it } from 'vitest';
import { MessageGraph } from '../../src/agents/message-graph.ts';
import type { AnsweredTurn } from '../../src/agents/message-key.ts';

describe('MessageGraph', () => {
  it('finds the turn that an assistant message tells, also if the same message was there before the turn was answered', () => {
    const graph = new MessageGraph<{ answer: { readonly content: string; readonly toolCalls: readonly [] } | null }>();
    const question = { role: 'user', content: 'Who?' } as const;
    const told = { role: 'assistant', content: 'A heron.' } as const;
    const turn: { answer: { readonly content: string; readonly toolCalls: readonly [] } | null } = { answer: null };
    const added = graph.addTurn(graph.place([question], []), turn);
    expect(graph.place([question, told], []).turn).toBeNull();
    turn.answer = { content: 'A heron.', toolCalls: [] };
    expect(graph.place([question, told], [])).toBe(added);
    expect(graph.place([question, told], [])).toBe(added);
  });

  describe('where several answers to a list, or an answer and a message of the agent, say the same', () => {
    const [question, next, last] = ['Who?', 'Sure?', 'Why?'].map((content) => ({ role: 'user', content }) as const);
    const yes = () => ({ role: 'assistant', content: 'Yes.' }) as const;
    const answer = { content: 'Yes.', toolCalls: [] };

    it('goes on with the one that the list restates, whichever was answered first, and with the same objects or others', () => {
      const graph = new MessageGraph<{ answer: AnsweredTurn | null }>();
      const [slow, fast] = [{ answer: null as AnsweredTurn | null }, { answer }];
      const asked = graph.place([question!], []);
      const first = graph.addTurn(asked, slow);
      const second = graph.addTurn(asked, fast);
      const told = yes();
      const after = graph.addTurn(graph.place([question!, told, next!], []), fast);
      expect(after.parent!.parent).toBe(second);
      slow.answer = answer;
      expect(graph.place([question!, told, next!, yes(), last!], []).parent).toBe(after);
      expect(graph.place([question!, yes(), next!, yes(), last!], []).parent).toBe(after);
      const other = graph.addTurn(graph.place([question!, told, last!], []), fast);
      expect(other.parent!.parent).toBe(first);
      expect(graph.place([question!, yes(), last!, yes(), next!], []).parent).toBe(other);
      expect(graph.place([question!, told, last!, yes(), next!], []).parent).toBe(other);
    });

    it('goes on below the message of the agent if the policy answered there, and below the answer if it did not', () => {
      const graph = new MessageGraph<{ answer: AnsweredTurn | null }>();
      const after = graph.addTurn(graph.place([question!, yes(), next!], []), { answer });
      // A request that is refused leaves its list in the tree.
      graph.place([question!, yes(), last!], []);
      const said = graph.addTurn(graph.place([question!], []), { answer });
      expect(graph.place([question!, yes(), next!, yes(), last!], []).parent).toBe(after);
      expect(graph.place([question!, yes(), last!], []).parent).toBe(said);
    });
  });

  it('gives a turn the place of one that was taken back, and two turns never the same name', () => {
    const graph = new MessageGraph<{ answer: null }>();
    const node = graph.place([{ role: 'user', content: 'Who?' }], []);
    const [first, second] = [graph.addTurn(node, { answer: null }), graph.addTurn(node, { answer: null })];
    graph.takeBack(first);
    const again = graph.addTurn(node, { answer: null });
    expect([again.path, again.ordinal]).toEqual([first.path, 0]);
    expect([again, second, graph.addTurn(node, { answer: null })].map(({ ordinal }) => ordinal)).toEqual([0, 1, 2]);
    expect(new Set(node.turns.map(({ path }) => path)).size).toBe(3);
  });

  it('takes arguments by their text where they are nested too deeply for their keys to be ordered', () => {
    const graph = new MessageGraph<{ readonly answer: AnsweredTurn }>();
    const list = (levels: number) =>
      [
        { role: 'assistant', content: '', toolCalls: [{ id: 'c1', name: 'find', arguments: `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}` }] },
      ] as const;
    const deep = graph.place(list(20_000), []);
    expect([graph.place(list(20_000), []), graph.place(list(20_001), [])].map((node) => node === deep)).toEqual([true, false]);
  });

  it('keeps a call whose arguments came back in any form, and one that could not be made and has another name; another name for one that could be made is an edit', () => {
    const tools = [{ name: 'find', description: '', parameters: {} }];
    const isTurn = (own: { readonly name: string; readonly arguments: string }, told: { readonly name: string; readonly arguments: string }) => {
      const graph = new MessageGraph<{ readonly answer: AnsweredTurn }>();
      const question = { role: 'user', content: 'Who?' } as const;
      const added = graph.addTurn(graph.place([question], tools), { answer: { content: '', toolCalls: [{ id: 'c1', ...own }] } });
      return graph.place([question, { role: 'assistant', content: '', toolCalls: [{ id: 'c1', ...told }] }], tools) === added;
    };
    const call = { name: 'find', arguments: '{"q": "heron"}' };
    expect(isTurn(call, { name: 'find', arguments: '{"q":"grey heron"}' })).toBe(true);
    expect(isTurn({ ...call, name: 'look' }, { name: 'invalid', arguments: '{"error":"no such tool"}' })).toBe(true);
    expect(isTurn({ ...call, arguments: '{"q": "her' }, { name: 'invalid', arguments: '{}' })).toBe(true);
    expect(isTurn(call, { name: 'look', arguments: '{"q":"crane"}' })).toBe(false);
  });
});
