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
const PYTHON = `find_note(query='city "of" light', top=2)`;
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
    ['Granite 4', `<tool_call>[{"name": "find_note", "arguments": ${ARGS}}]</tool_call>`],
    ['Gemma 3', `\`\`\`tool_code\nprint(${PYTHON})\n\`\`\``],
    ['Gemma 3, by place', '```tool_code\nfind_note("city \\"of\\" light", 2)\n```'],
    ['Gemma 4', '<|tool_call>call:find_note{query:<|"|>city "of" light<|"|>,top:2}<tool_call|>'],
    ['LFM2', `<|tool_call_start|>[${PYTHON}]<|tool_call_end|>`],
    ['Llama 4', `<|python_start|>[${PYTHON}]<|python_end|>`],
    ['Llama 3 with a call of Python', `<|python_tag|>${PYTHON.replace('(', '.call(')}`],
    ['Olmo 3', `<function_calls>${PYTHON}</function_calls>`],
    ['Functionary 3.1', `<function=find_note>${ARGS}</function>`],
    ['Functionary 3.2', `>>>find_note\n${ARGS}`],
    [
      'Command R',
      `Action: \`\`\`json\n[\n  {"tool_name": "find_note", "parameters": ${ARGS}},\n  {"tool_name": "directly-answer", "parameters": {}}\n]\n\`\`\``,
    ],
    ['Command A', `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "find_note", "parameters": ${ARGS}}]<|END_ACTION|>`],
    ['Hunyuan', `<tool_calls>[{"name": "find_note", "arguments": ${ARGS}}]</tool_calls>`],
    ['MiniMax M1', `<tool_calls>\n{"name": "find_note", "arguments": ${ARGS}}\n</tool_calls>`],
    ['Nemotron', `<TOOLCALL>[{"name": "find_note", "arguments": ${ARGS}}]</TOOLCALL>`],
    ['InternLM', `<|action_start|><|plugin|>\n{"name": "find_note", "parameters": ${ARGS}}<|action_end|>`],
    ['Apertus', `<|tools_prefix|>[{"find_note": ${ARGS}}]<|tools_suffix|>`],
    ['Phi 4', `functools[{"name": "find_note", "arguments": ${ARGS}}]`],
    [
      'Seed-OSS',
      '<seed:tool_call>\n<function=find_note>\n<parameter=query>city "of" light</parameter>\n<parameter=top>2</parameter>\n</function>\n</seed:tool_call>',
    ],
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

  it('finds calls of Python without tags only if the text is nothing else, and calls an offered tool', () => {
    expect(leftToolCalls(`[${PYTHON}, ${PYTHON}]`, 0, [find]).attempts).toMatchObject([CALL, CALL]);
    for (const text of [`I could call ${PYTHON} now.`, 'print("Paris")', '[1, 2]', '>>> print(1)', 'Use functools [x].'])
      expect(leftToolCalls(text, 0, [find])).toEqual({ attempts: [], content: text });
  });

  it.each([
    ['```tool_code\nfind_note(query="x', 'the call of Python is not closed'],
    ['```tool_code\nfind_note(query=x)\n```', 'the argument query is not a Python value'],
    ['```tool_code\nfind_note("a", 2, 3)\n```', 'the call has 3 arguments, and find_note takes 2'],
    ['<|START_ACTION|>[{"tool_name": "find_note", "param', 'not JSON'],
    ['<|tool_call>call:find_note{query:', 'not JSON'],
  ])('gives the broken call %s its problem', (text, problem) => {
    expect(leftToolCalls(text, 0, [find]).attempts).toMatchObject([{ problem: expect.stringContaining(problem) as string }]);
  });

  it.each([
    ['<|START_THINKING|>', '<|END_THINKING|>'],
    ['<seed:think>', '</seed:think>'],
    ['<|channel>thought\n', '<channel|>'],
    ['<|channel|>analysis<|message|>', '<|end|><|start|>assistant<|channel|>final<|message|>'],
  ])('takes a call between %s and %s as a mention', (open, close) => {
    expect(leftToolCalls(`${open}I could write ${PYTHON.replace('find', '```tool_code find')}.${close}Paris`, 0, [find]).attempts).toEqual([]);
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
