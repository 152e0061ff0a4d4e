import { describe, expect, test } from 'vitest';
import { readChat } from '../../src/clients/openai-chat-reply.ts';

const read = (message: object, finish_reason: unknown = 'stop') =>
  readChat(
    { choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason }] },
    { stop: [], maxNewTokens: null, where: 'host', hide: (text) => text },
  );

describe('readChat', () => {
  test.each<[string, unknown, object]>([
    [
      'of any type count',
      [
        { type: 'text', text: 'Par' },
        { type: 'markdown', text: 'is' },
      ],
      { text: 'Paris' },
    ],
    ['may hold their text as a value', [{ type: 'text', text: { value: 'Paris', annotations: [] } }], { text: 'Paris' }],
    ['may come alone', { type: 'text', text: 'Paris' }, { text: 'Paris' }],
    [
      'without a text are left out',
      [
        { type: 'image_url', image_url: {} },
        { type: 'text', text: 'Paris' },
        { type: 'reference', reference_ids: [1] },
      ],
      { text: 'Paris' },
    ],
    [
      'of thoughts are thoughts',
      [
        { type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm' }] },
        { type: 'text', text: 'Paris' },
      ],
      { text: 'Paris', reasoning: 'hm' },
    ],
  ])('parts of the content %s', (_, content, expected) => {
    const { text, reasoning } = read({ content });
    expect({ text, ...(reasoning !== undefined && { reasoning }) }).toEqual(expected);
  });

  test.each([{ reasoning: { text: 'hm' } }, { reasoning_content: [{ type: 'text', text: 'hm' }] }, { thinking: { content: 'hm', signature: 's' } }])(
    'thoughts are recorded in whatever form they come: %j',
    (thoughts) => {
      expect(read({ content: 'Paris', ...thoughts })).toMatchObject({ text: 'Paris', reasoning: 'hm' });
    },
  );

  test('a refusal as a part is final', () => {
    expect(() => read({ content: [{ type: 'refusal', refusal: 'I cannot' }] })).toThrow(
      expect.objectContaining({ retryable: false, message: 'host refused to answer: "I cannot"' }),
    );
  });

  test.each<[string, unknown]>([
    ['without the level of the function', [{ id: 'a', name: 'search', arguments: { query: 'x' } }]],
    ['of the Messages API', [{ id: 'a', type: 'tool_use', name: 'search', input: { query: 'x' } }]],
    ['with parameters', [{ id: 'a', function: { name: 'search', parameters: '{"query":"x"}' } }]],
    ['with the namespace of gpt-oss', [{ id: 'a', function: { name: 'functions.search', arguments: '{"query":"x"}' } }]],
    ['that is not a list', { id: 'a', function: { name: ' search', arguments: '{"query":"x"}' } }],
  ])('a tool call %s is a call', (_, calls) => {
    expect(read({ content: null, tool_calls: calls }, 'tool_calls').toolCalls).toEqual([{ id: 'a', name: 'search', arguments: '{"query":"x"}' }]);
  });

  test('a tool call that cannot be read is a failure, not an answer', () => {
    expect(() => read({ content: 'Let me see.', tool_calls: [{ id: 'a', query: 'x' }] })).toThrow(
      expect.objectContaining({ retryable: true, message: expect.stringContaining('without a name') }),
    );
  });
});
