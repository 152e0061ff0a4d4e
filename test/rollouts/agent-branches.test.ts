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

  it('compares the tools of a sub-agent with those of the conversation, not with none of a side call', async () => {
    const played = branches(async (asks) => {
      await asks.ask(TITLE, `Capitals${END}`, { tools: [] });
      await asks.ask(TASK, `Lima${END}`);
      await asks.ask(PLAN, `So.${END}`, { tools: [SEARCH] });
    });
    expect(await played).toEqual([
      ['What is the capital of Peru?', null, null],
      ['Plan it.', 'tools', 'other tools are offered: without look; with search'],
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
      ['What is the capital of Peru?', 'tools', 'other tools are offered: with look'],
    ]);
  });

  it('leaves questions without tools as they are where nothing has tools', async () => {
    const played = branches(async (asks) => [await asks.ask(TITLE, `A${END}`, { tools: [] }), await asks.ask(TASK, `B${END}`, { tools: [] })]);
    expect((await played).map(([, kind]) => kind)).toEqual([null, 'history']);
  });
});
