import { describe, expect, it } from 'vitest';
import type { Message } from '../../src/core/message.ts';
import type { ToolSpec } from '../../src/core/tool-calls.ts';
import { branchesOf } from '../../src/rollouts/agent-branches.ts';
import { Asks } from './branched-rollout.ts';

const TITLE: Message[] = [{ role: 'user', content: 'Name this chat.' }];
const TASK: Message[] = [{ role: 'user', content: 'What is the capital of Peru?' }];
const PLAN: Message[] = [{ role: 'user', content: 'Plan it.' }];
const SEARCH: ToolSpec = { name: 'search', description: 'Searches.', parameters: { type: 'object' } };
const END = '<|im_end|>';

async function branches(play: (asks: Asks) => Promise<unknown>) {
  const asks = await Asks.open('tokens');
  await play(asks);
  return branchesOf(asks.session).map(({ fork, prompt }) => [prompt[0]!.content, fork?.kind ?? null, fork?.difference ?? null]);
}

const SIDE = ['Name this chat.', 'side', 'one question was asked without tools, such as for a title'];

describe('branchesOf', () => {
  it('begins with the conversation that has tools, also if a question without tools came before it, which it names as a side call', async () => {
    const title = (asks: Asks) => asks.ask(TITLE, `Capitals${END}`, { tools: [] });
    const task = (asks: Asks) => asks.ask(TASK, `Lima${END}`);
    const expected = [['What is the capital of Peru?', null, null], SIDE];
    expect(await branches(async (asks) => [await title(asks), await task(asks)])).toEqual(expected);
    expect(await branches(async (asks) => [await task(asks), await title(asks)])).toEqual(expected);
  });

  it('begins with the conversation without a role, also if a guard in a role asked before it', async () => {
    const guard = (asks: Asks) => asks.ask(PLAN, `Fine${END}`, { role: 'guard' });
    const task = (asks: Asks) => asks.ask(TASK, `Lima${END}`);
    const expected = [
      ['What is the capital of Peru?', null, null],
      ['Plan it.', null, null],
    ];
    expect(await branches(async (asks) => [await guard(asks), await task(asks)])).toEqual(expected);
    expect(await branches(async (asks) => [await task(asks), await guard(asks)])).toEqual(expected);
  });

  it('compares the tools of a sub-agent with those of the conversation, not with none of a side call', async () => {
    const played = branches(async (asks) => {
      await asks.ask(TITLE, `Capitals${END}`, { tools: [] });
      await asks.ask(TASK, `Lima${END}`);
      await asks.ask(PLAN, `So.${END}`, { tools: [SEARCH] });
    });
    expect(await played).toEqual([
      ['What is the capital of Peru?', null, null],
      ['Plan it.', 'tools', 'other tools are offered: with search, without look'],
      SIDE,
    ]);
  });

  it('takes a conversation of several turns without tools for one of its own', async () => {
    const played = branches(async (asks) => {
      const [plan] = await asks.ask(PLAN, `Look it up.${END}`, { tools: [] });
      await asks.ask([...PLAN, plan!, { role: 'user', content: 'More?' }], `No.${END}`, { tools: [] });
      await asks.ask(TASK, `Lima${END}`);
    });
    expect(await played).toEqual([
      ['Plan it.', null, null],
      ['What is the capital of Peru?', 'tools', 'tools are offered where there were none: look'],
    ]);
  });

  it('leaves questions without tools as they are where nothing has tools', async () => {
    const played = branches(async (asks) => [await asks.ask(TITLE, `A${END}`, { tools: [] }), await asks.ask(TASK, `B${END}`, { tools: [] })]);
    expect((await played).map(([, kind]) => kind)).toEqual([null, 'history']);
  });

  describe('says of each branch where and how it left those before it', () => {
    it('where a list ends, with which another one went on', async () => {
      const played = forks(async (asks) => {
        await asks.ask([...A, told('x'), ...B], `1${END}`);
        await asks.ask(A, `2${END}`);
      });
      expect(await played).toEqual([FIRST, [null, 'history', 1, 'message 1 (assistant) was there and is gone']]);
    });

    it('where it left after its own turn, not where another branch did', async () => {
      const played = forks(async (asks) => {
        const [a] = await asks.ask(A, `1${END}`);
        const [b] = await asks.ask([...A, a!, ...B], `2${END}`);
        const [c] = await asks.ask([...A, a!, ...C], `3${END}`);
        await asks.ask([...A, a!, ...B, b!, ...D], `4${END}`);
        await asks.ask([...A, a!, ...B, b!, ...E], `5${END}`);
        await asks.ask([...A, a!, ...C, c!, ...E], `6${END}`);
      });
      expect(await played).toEqual([
        FIRST,
        [0, 'history', 4, 'message 4 (user) was "d" and is "e" from character 0 on'],
        [0, 'history', 2, 'message 2 (user) was "b" and is "c" from character 0 on'],
      ]);
    });

    it.each([
      ['b', 'c'],
      ['c', 'b'],
      ['d', 'e'],
      ['e', 'd'],
    ])('in the order of its first turns, if the agent goes back to an earlier one and on {%s, %s}', async (first, second) => {
      const [was, is] = [said(first), said(second)];
      const played = forks(async (asks) => {
        const [a] = await asks.ask(A, `1${END}`);
        const [b] = await asks.ask([...A, a!, ...was], `2${END}`);
        await asks.ask([...A, a!, ...is], `3${END}`);
        await asks.ask([...A, a!, ...was, b!, ...A], `4${END}`);
      });
      expect(await played).toEqual([FIRST, [0, 'history', 2, `message 2 (user) was "${first}" and is "${second}" from character 0 on`]]);
    });

    it('where an answer was asked for again after it was used, and where it was asked for several times', async () => {
      const [again, several] = [
        'the same messages were sent again after their answer was used',
        'several answers to the same messages were asked for',
      ];
      const played = forks(async (asks) => {
        const [a] = await asks.ask(A, `1${END}`);
        await asks.ask([...A, a!, ...B], `2${END}`);
        await asks.ask(A, `3${END}`);
      });
      expect(await played).toEqual([FIRST, [null, 'retry', 1, again]]);
      expect(await forks((asks) => asks.ask(A, [`1${END}`, `2${END}`]))).toEqual([FIRST, [null, 'sample', 1, several]]);
    });

    it('without regard to a list that was refused, which also makes no answer a used one', async () => {
      const system = (content: string): Message[] => [{ role: 'system', content }, ...A];
      const refused = { jsonSchema: null };
      const played = forks(async (asks) => {
        await expect(asks.ask(system('s1'), [], { settings: refused })).rejects.toThrow('response_format');
        const [first] = await asks.ask(system('s2'), `1${END}`);
        await asks.ask(system('s3'), `2${END}`);
        await expect(asks.ask([...system('s2'), first!, ...B], [], { settings: refused })).rejects.toThrow('response_format');
        expect(await asks.ask(system('s2'), [])).toEqual([first]);
        await expect(asks.ask(TASK, [], { tools: [SEARCH], settings: refused })).rejects.toThrow('response_format');
      });
      expect(await played).toEqual([FIRST, [null, 'system', 0, 'message 0 (system) was "s2" and is "s3" from character 1 on']]);
    });
  });
});

const said = (content: string): Message[] => [{ role: 'user', content }];
const told = (content: string): Message => ({ role: 'assistant', content });
const [A, B, C, D, E] = ['a', 'b', 'c', 'd', 'e'].map(said) as [Message[], Message[], Message[], Message[], Message[]];
const FIRST = [null, null, null, null];

async function forks(play: (asks: Asks) => Promise<unknown>) {
  const asks = await Asks.open('tokens');
  await play(asks);
  return branchesOf(asks.session).map(({ parent, fork }) => [parent, fork?.kind ?? null, fork?.at ?? null, fork?.difference ?? null]);
}
