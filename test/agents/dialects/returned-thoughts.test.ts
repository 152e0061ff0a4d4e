/** An agent sends the turns of the policy back, with their thoughts: they come back as the policy's server and its chat template know them, whatever the API. */
import { describe, expect, it } from 'vitest';
import type { AgentTurn } from '../../../src/agents/agent-request.ts';
import { chatDialect } from '../../../src/agents/dialects/chat.ts';
import { messagesDialect } from '../../../src/agents/dialects/messages.ts';
import { ResponseStore } from '../../../src/agents/dialects/response-store.ts';
import { responsesDialect } from '../../../src/agents/dialects/responses.ts';

const turn: AgentTurn = {
  content: 'Wait.',
  reasoning: 'The plan.',
  toolCalls: [{ id: 'c1', name: 'find', arguments: '{"q":"heron"}' }],
  finish: 'stop',
  usage: { promptTokens: 1, completionTokens: 2, cachedTokens: null },
};
const head = { id: 'one', created: 0, model: 'm' };
const store = new ResponseStore();
const question = { role: 'user', content: 'Who?' };

interface Answer {
  readonly choices: readonly [{ readonly message: object }];
  readonly content: object;
  readonly output: readonly object[];
}

const WAYS = {
  chat: [chatDialect, { messages: [question] }, (answer: Answer) => ({ messages: [question, answer.choices[0].message] })],
  messages: [
    messagesDialect,
    { messages: [question] },
    (answer: Answer) => ({ messages: [question, { role: 'assistant', content: answer.content }, { role: 'user', content: 'Go on.' }] }),
  ],
  responses: [responsesDialect, { input: [question] }, (answer: Answer) => ({ input: [question, ...answer.output] })],
} as const;

describe('a turn that an agent sends back', () => {
  it.each(['chat', 'messages', 'responses'] as const)('has its thoughts, text and calls over %s', (name) => {
    const [dialect, asked, goOn] = WAYS[name];
    const answer = JSON.parse(JSON.stringify(dialect.answer(head, dialect.read(asked, store), [turn]))) as Answer;
    const { messages, unhonoured } = dialect.read(goOn(answer), store);
    expect(messages[1]).toEqual({ role: 'assistant', content: 'Wait.', toolCalls: turn.toolCalls, serverFields: { reasoning_content: 'The plan.' } });
    expect(unhonoured).toEqual([]);
  });

  it('is the same text in any number of parts', () => {
    const parts = (type: string) => ['A her', 'on.'].map((text) => ({ type, text }));
    const texts = [
      chatDialect.read({ messages: [question, { role: 'assistant', content: parts('text') }] }, store),
      messagesDialect.read({ messages: [{ role: 'assistant', content: parts('text') }, question] }, store),
      responsesDialect.read({ input: [{ role: 'assistant', content: parts('output_text') }] }, store),
    ].map(({ messages }) => messages.find(({ role }) => role === 'assistant')!.content);
    expect(texts).toEqual(['A heron.', 'A heron.', 'A heron.']);
  });

  it('names thoughts that only their vendor can read', () => {
    const secret = {
      role: 'assistant',
      content: [
        { type: 'redacted_thinking', data: 'x' },
        { type: 'text', text: 'Wait.' },
      ],
    };
    expect(messagesDialect.read({ messages: [question, secret, question] }, store).unhonoured).toEqual(['messages[].content[] (redacted_thinking)']);
    const encrypted = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' };
    expect(responsesDialect.read({ input: [question, encrypted, question] }, store).unhonoured).toEqual(['input[] (encrypted reasoning)']);
  });
});
