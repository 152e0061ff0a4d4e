import { describe, expect, it } from 'vitest';
import { leftToolCalls } from '../../src/core/left-tool-calls.ts';
import { readToolCall, type ToolSpec } from '../../src/core/tool-calls.ts';

const find: ToolSpec = {
  name: 'find_note',
  description: 'Finds a note.',
  parameters: { type: 'object', properties: { query: { type: 'string' }, top: { type: 'integer' } } },
};
const CALL = { name: 'find_note', args: { query: 'city "of" light', top: 2 } };
const ARGS = '{"query": "city \\"of\\" light", "top": 2}';
const XML = '<parameter name="query">city "of" light</parameter><parameter name="top">2</parameter>';

describe('leftToolCalls', () => {
  it.each([
    ['Hermes', `<tool_call>\n{"name": "find_note", "arguments": ${ARGS}}\n</tool_call>`],
    [
      'Qwen3-Coder',
      '<tool_call>\n<function=find_note>\n<parameter=query>\ncity "of" light\n</parameter>\n<parameter=top>\n2\n</parameter>\n</function>\n</tool_call>',
    ],
    ['Qwen3-Coder without the outer tag', '<function=find_note><parameter=query>city "of" light</parameter><parameter=top>2</parameter></function>'],
    [
      'GLM',
      '<tool_call>find_note\n<arg_key>query</arg_key>\n<arg_value>city "of" light</arg_value>\n<arg_key>top</arg_key>\n<arg_value>2</arg_value>\n</tool_call>',
    ],
    ['MiniMax', `<minimax:tool_call>\n<invoke name="find_note">\n${XML}\n</invoke>\n</minimax:tool_call>`],
    ['Claude', `<function_calls>\n<invoke name="find_note">\n${XML}\n</invoke>\n</function_calls>`],
    [
      'DeepSeek V3.2',
      '<｜DSML｜function_calls>\n<｜DSML｜invoke name="find_note">\n<｜DSML｜parameter name="query" string="true">city "of" light</｜DSML｜parameter>\n' +
        '<｜DSML｜parameter name="top" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    ],
    ['Mistral', `[TOOL_CALLS][{"name": "find_note", "arguments": ${ARGS}}]</s>`],
    ['Magistral', `[TOOL_CALLS]find_note[ARGS]${ARGS}`],
    [
      'DeepSeek V3',
      `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>find_note\n\`\`\`json\n${ARGS}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
    ],
    ['DeepSeek V3.1', `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find_note<｜tool▁sep｜>${ARGS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`],
    [
      'Kimi K2',
      `<|tool_calls_section_begin|><|tool_call_begin|>functions.find_note:0<|tool_call_argument_begin|>${ARGS}<|tool_call_end|><|tool_calls_section_end|>`,
    ],
    ['gpt-oss', `<|channel|>commentary to=functions.find_note <|constrain|>json<|message|>${ARGS}<|call|>`],
    ['Llama', `<|python_tag|>{"name": "find_note", "parameters": ${ARGS}}`],
    ['Granite', `<|tool_call|>[{"name": "find_note", "arguments": ${ARGS}}]`],
  ])('finds a call of %s, after text', (_, spelled) => {
    const { attempts, content } = leftToolCalls(`I look.\n${spelled}`, 3, [find]);
    expect(attempts).toMatchObject([{ ...CALL, id: 'call00300' }]);
    expect(content).toBe('I look.');
  });

  it('finds calls as bare JSON only if the text is nothing else, and names an offered tool', () => {
    const bare = `{"name": "find_note", "parameters": ${ARGS}}`;
    expect(leftToolCalls(`[${bare}, ${bare}]`, 0, [find]).attempts).toMatchObject([CALL, CALL]);
    expect(leftToolCalls(`\`\`\`json\n${bare}\n\`\`\``, 0, [find]).attempts).toMatchObject([CALL]);
    for (const text of [`I answer ${bare}`, '{"name": "Paris", "arguments": {}}', '{"answer": 1}', 'Paris', ''])
      expect(leftToolCalls(text, 0, [find])).toEqual({ attempts: [], content: text });
  });

  it('finds several calls, and gives a broken one its problem', () => {
    const hermes = `<tool_call>{"name": "find_note", "arguments": ${ARGS}}</tool_call>`;
    expect(leftToolCalls(hermes + hermes, 0, [find]).attempts.map(({ id }) => id)).toEqual(['call00000', 'call00001']);
    expect(leftToolCalls('<tool_call>{"name": ', 0, [find]).attempts).toMatchObject([{ problem: expect.stringContaining('not JSON') as string }]);
    expect(leftToolCalls('[TOOL_CALLS]find_note[ARGS]{"query"', 0, [find]).attempts).toMatchObject([
      { problem: expect.stringContaining('not JSON') as string },
    ]);
  });

  it('reads arguments that were encoded twice', () => {
    expect(readToolCall({ id: 'a', name: 'find_note', arguments: JSON.stringify(ARGS) })).toMatchObject(CALL);
    for (const none of ['', '{}', 'null', '""']) expect(readToolCall({ id: 'a', name: 'find_note', arguments: none })).toMatchObject({ args: {} });
    expect(readToolCall({ id: 'a', name: 'find_note', arguments: '"no object"' })).toMatchObject({ problem: '"arguments" is not an object' });
  });

  it('takes calls in closed thoughts as mentions, but not those in thoughts that never end', () => {
    const hermes = `<tool_call>{"name": "find_note", "arguments": ${ARGS}}</tool_call>`;
    const xml = '<tool_call><function=find_note><parameter=query>city "of" light</parameter><parameter=top>2</parameter></function></tool_call>';
    expect(leftToolCalls(`<think>I use <tool_call> now</think>${xml}`, 0, [find]).attempts).toMatchObject([CALL]);
    expect(leftToolCalls(`<think>${hermes}</think><answer> Paris </answer>`, 0, [find]).attempts).toEqual([]);
    expect(leftToolCalls(`<think>I look. ${hermes}`, 0, [find]).attempts).toMatchObject([CALL]);
  });
});
