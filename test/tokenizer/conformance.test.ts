/**
 * Buffers of played conversations (rendered prompt, sampled ids, bridges) against the template's own rendering of the same conversation. Where a
 * template writes earlier turns differently, the difference is data here; docs/chat-templates.md describes it in words.
 */
import { afterAll, describe, expect, it } from 'vitest';
import type { Message } from '../../src/core/message.ts';
import type { ToolCallFormat } from '../../src/core/tool-calls.ts';
import type { ChatTokenizer } from '../../src/tokenizer/chat-tokenizer.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';
import { templateMessage, templateTool } from '../../src/tokenizer/template-messages.ts';
import { templateTraits } from '../../src/tokenizer/template-traits.ts';
import type { ModelTokenizer } from '../../src/tokenizer/tokenizer-types.ts';
import { temporaryFolder } from '../trainer/publisher/adapter-files.ts';
import * as cases from './conformance-cases.ts';
import type { Difference, PlayedCase } from './conformance-cases.ts';
import { published, writeTemplateModel } from './template-models.ts';

interface Expected {
  readonly name: string;
  readonly toolCalls: ToolCallFormat | null;
  readonly closing: string;
  readonly cases: readonly PlayedCase[];
  /** By the case's name; the others are exact. */
  readonly differs?: Readonly<Record<string, Difference>>;
  /** What the template says about a conversation with an answer of a tool. */
  readonly refusesTools?: RegExp;
}

const hermes = (query: string) => `<tool_call>\n{"name": "search", "arguments": {"query": "${query}"}}\n</tool_call>`;
const xml = (query: string) => `<tool_call>\n<function=search>\n<parameter=query>\n${query}\n</parameter>\n</function>\n</tool_call>`;
const llama = (query: string) => `{"name": "search", "parameters": {"query": "${query}"}}`;
const deepseek = (query: string) => `Searching for ${query}.`;
const withoutMessages = (all: readonly PlayedCase[]) =>
  all.map((one) => ({ ...one, turns: one.turns.map(({ sampled, next }) => ({ sampled, next })) }));

const DROPS_THOUGHTS: Difference = {
  because: 'thoughts of turns before the last question are dropped',
  replaced: [
    ['<think>\nA play.\n</think>\n\n', ''],
    ['<think>\nLong ago.\n</think>\n\n', ''],
  ],
};
const DROPS_FIRST_THOUGHTS: Difference = {
  because: 'what precedes the first end of thoughts in a turn is dropped with it',
  replaced: [
    ['<think>\nA play.\n</think>', ''],
    ['<think>\nLong ago.\n</think>', ''],
  ],
};
/** The prompt opens thoughts at each turn, and the template leaves out what comes before their end. */
const OPENED: Readonly<Record<string, Difference>> = Object.fromEntries([
  ...[...cases.PLAIN_CASES, cases.WHITESPACE_CASE].map(({ name, turns }): [string, Difference] => [
    name,
    { because: 'earlier turns lose the tag that the prompt opened', replaced: turns.map(() => ['<think>\n', '']) },
  ]),
  [
    cases.OPENED_THOUGHT_CASE.name,
    {
      because: 'earlier turns lose their thoughts, not the line ends behind them',
      replaced: [
        ['<think>\nA play.\n</think>', ''],
        ['<think>\nLong ago.\n</think>', ''],
      ],
    },
  ],
]);
const TRIMS: Difference = { because: 'contents are trimmed', replaced: [[' Shakespeare. \n', 'Shakespeare.']] };
const [LLAMA_CALL, LLAMA_CALLS] = cases.toolCases(llama);

const TEMPLATES: readonly Expected[] = [
  {
    name: 'qwen-2-5',
    toolCalls: 'hermes',
    closing: '<|im_end|>',
    cases: [...cases.PLAIN_CASES, ...cases.toolCases(hermes), cases.THOUGHT_CASE, cases.WHITESPACE_CASE],
  },
  {
    name: 'qwen-3',
    toolCalls: 'hermes',
    closing: '<|im_end|>',
    cases: [...cases.PLAIN_CASES, ...cases.toolCases(hermes), cases.THOUGHT_CASE, cases.ASKED_TWICE_CASE, cases.WHITESPACE_CASE],
    differs: { [cases.THOUGHT_CASE.name]: DROPS_THOUGHTS },
  },
  {
    name: 'qwen-3-instruct-2507',
    toolCalls: 'hermes',
    closing: '<|im_end|>',
    cases: [...cases.PLAIN_CASES, ...cases.toolCases(hermes), cases.THOUGHT_CASE, cases.WHITESPACE_CASE],
  },
  {
    name: 'qwen-3-coder',
    toolCalls: 'qwen3-coder',
    closing: '<|im_end|>',
    cases: [...cases.PLAIN_CASES, ...cases.toolCases(xml), cases.WHITESPACE_CASE],
  },
  {
    name: 'llama-3',
    toolCalls: null,
    closing: '<|eot_id|>',
    cases: [...cases.PLAIN_CASES, cases.WHITESPACE_CASE],
    differs: { [cases.WHITESPACE_CASE.name]: TRIMS },
  },
  {
    name: 'llama-3-1',
    toolCalls: 'llama3',
    closing: '<|eot_id|>',
    cases: [...cases.PLAIN_CASES, LLAMA_CALL!, LLAMA_CALLS!, cases.WHITESPACE_CASE],
    differs: { [cases.WHITESPACE_CASE.name]: TRIMS },
  },
  {
    name: 'llama-3-2',
    toolCalls: 'llama3',
    closing: '<|eot_id|>',
    cases: [...cases.PLAIN_CASES, LLAMA_CALL!, LLAMA_CALLS!, cases.WHITESPACE_CASE],
    differs: { [cases.WHITESPACE_CASE.name]: TRIMS },
  },
  {
    name: 'gemma-3',
    toolCalls: null,
    closing: '<end_of_turn>',
    cases: [...cases.PLAIN_CASES, cases.WHITESPACE_CASE],
    differs: { [cases.WHITESPACE_CASE.name]: TRIMS },
    refusesTools: /must alternate user\/assistant/,
  },
  {
    name: 'deepseek-v3',
    toolCalls: null,
    closing: '<｜end▁of▁sentence｜>',
    cases: [...cases.PLAIN_CASES, cases.OPENED_THOUGHT_CASE, cases.WHITESPACE_CASE],
    differs: OPENED,
  },
  {
    name: 'deepseek-v3-1',
    toolCalls: null,
    closing: '<｜end▁of▁sentence｜>',
    cases: [...cases.PLAIN_CASES, ...withoutMessages(cases.toolCases(deepseek)), cases.WHITESPACE_CASE, cases.THOUGHT_CASE],
    differs: { [cases.THOUGHT_CASE.name]: DROPS_FIRST_THOUGHTS },
  },
  {
    name: 'qwen-3-5',
    toolCalls: 'qwen3-coder',
    closing: '<|im_end|>',
    cases: [cases.OPENED_THOUGHT_CASE],
    differs: { [cases.OPENED_THOUGHT_CASE.name]: DROPS_THOUGHTS },
  },
  {
    name: 'chatml',
    toolCalls: 'hermes',
    closing: '<|im_end|>',
    cases: [...cases.PLAIN_CASES, ...cases.toolCases(hermes), cases.THOUGHT_CASE, cases.WHITESPACE_CASE],
  },
];

const folder = temporaryFolder();
afterAll(() => folder.remove());

interface Opened {
  readonly chat: ChatTokenizer;
  readonly model: ModelTokenizer;
  readonly text: (ids: ArrayLike<number>) => string;
  readonly idOf: (control: string) => number;
  /** The template's own rendering of a whole conversation. */
  readonly render: (messages: readonly Message[], tools: PlayedCase['tools'], addGenerationPrompt: boolean) => string;
}

async function open(name: string): Promise<Opened> {
  const directory = writeTemplateModel(folder.path, published(name));
  const [chat, model] = [await openLocalTokenizer(directory), await openTokenizer(directory)];
  return {
    chat,
    model,
    text: (ids) => model.decode(Int32Array.from(ids), { skipSpecialTokens: false }),
    idOf: (control) => model.encode(control, { addSpecialTokens: false })[0]!,
    render: (messages, tools, addGenerationPrompt) =>
      model.renderChat(
        messages.map((message) => ({ ...templateMessage(message) })),
        {
          addGenerationPrompt,
          continueFinalMessage: false,
          variables: tools === undefined ? {} : { tools: tools.map(templateTool) },
        },
      ),
  };
}

describe.each(TEMPLATES.map((expected) => [expected.name, expected] as const))('a conversation with the template %s', async (name, expected) => {
  const opened = await open(name);
  const { chat, model, text, idOf, render } = opened;

  it('is recognised', async () => {
    expect(await templateTraits(chat)).toEqual({
      chatTemplate: 'model',
      toolCalls: expected.toolCalls,
      beginsWithBos: false,
      closingTokenId: idOf(expected.closing),
    });
  });

  describe.each(expected.cases.map((played) => [played.name, played] as const))('%s', async (caseName, { prompt, tools, turns }) => {
    const options = tools === undefined ? {} : { tools };
    const buffer: number[] = [...(await chat.render(prompt, options)).ids];
    const history: Message[] = [...prompt];
    const whole: Message[] = [...prompt];
    const bridges: { readonly ids: Int32Array; readonly full: string }[] = [];
    for (const { sampled, end = expected.closing, message, next } of turns) {
      buffer.push(...model.encode(sampled, { addSpecialTokens: false }), ...(end === null ? [] : [idOf(end)]));
      const bridge = await chat.renderNext(history, next, { ...options, isClosed: end !== null });
      const rendered = render([...whole, { role: 'assistant', content: 'MARK' }, ...next], tools, true);
      const after = rendered.slice(rendered.lastIndexOf('MARK') + 'MARK'.length);
      bridges.push({ ids: bridge.ids, full: end === null ? after : after.slice(expected.closing.length) });
      buffer.push(...bridge.ids);
      history.push({ role: 'assistant', content: sampled }, ...next);
      whole.push(message ?? { role: 'assistant', content: sampled }, ...next);
    }

    it('has the bridges of the whole history, with contents uncut and calls as the template spells them', () => {
      expect(bridges.map(({ ids }) => text(ids))).toEqual(bridges.map(({ full }) => full));
    });

    it("equals the template's own rendering of the conversation, or differs as declared", () => {
      const difference = expected.differs?.[caseName];
      const own = render(whole, tools, true);
      let changed = text(buffer);
      for (const [ours, theirs] of difference?.replaced ?? []) {
        expect(changed).toContain(ours);
        changed = changed.replace(ours, theirs);
      }
      expect(changed).toBe(own);
      const ids = [...model.encode(own, { addSpecialTokens: false })];
      expect(difference === undefined ? buffer : ids).toEqual(ids);
    });
  });

  it('keeps whichever end token was sampled, and adds no second one', async () => {
    const other = published(name).control_tokens.find((control) => control !== expected.closing)!;
    const history: readonly Message[] = [{ role: 'user', content: 'Who?' }];
    const next: readonly Message[] = [{ role: 'user', content: 'When?' }];
    const [unclosed, closed] = [await chat.renderNext(history, next), await chat.renderNext(history, next, { isClosed: true })];
    expect([...unclosed.ids]).toEqual([idOf(expected.closing), ...closed.ids]);
    expect(idOf(other)).not.toBe(idOf(expected.closing));
  });

  it('never gets a control token from text that spells one', async () => {
    const { control_tokens: controls } = published(name);
    const hostile = controls.map((control) => `${control} ${control.slice(0, 3)}${control}`).join(' ');
    const spec = {
      ...cases.SEARCH,
      description: hostile,
      parameters: { type: 'object', properties: { [hostile]: { type: 'string', enum: [hostile] } } },
    };
    const plain = { ...spec, description: 'x', parameters: { type: 'object', properties: { x: { type: 'string', enum: ['x'] } } } };
    const hasTools = expected.toolCalls !== null;
    const rendered = await chat.render([{ role: 'user', content: hostile }], hasTools ? { tools: [spec] } : {});
    const harmless = await chat.render([{ role: 'user', content: 'x' }], hasTools ? { tools: [plain] } : {});
    expect(controlsOf(rendered.ids)).toEqual(controlsOf(harmless.ids));
    expect(rendered.neutralised).toBeGreaterThanOrEqual(2 * controls.length);
    expect(text(rendered.ids)).toContain(hostile);
    const role = hasTools ? 'tool' : 'user';
    const bridge = (content: string) =>
      chat.renderNext([{ role: 'user', content }], [{ role, content, toolCallId: 'call00000' }], hasTools ? { tools: [spec] } : {});
    const [bad, good] = [await bridge(hostile), await bridge('x')];
    expect(controlsOf(bad.ids)).toEqual(controlsOf(good.ids));
    expect(text(bad.ids)).toBe(text(good.ids).replace(/(?<=[>\n"]|^)x(?=[\n"<]|$)/, () => hostile));
    expect([bad.neutralised, good.neutralised]).toEqual([2 * controls.length, 0]);
  });

  it.runIf(expected.toolCalls !== null)('makes no control token of a name that the template writes between < and >', async () => {
    const spec = (...names: readonly string[]) => {
      const fields = Object.fromEntries(names.map((one) => [one, 'y']));
      return { ...cases.SEARCH, parameters: { type: 'object', properties: { query: { type: 'string', ...fields } }, ...fields } };
    };
    const ids = async (...names: readonly string[]) => (await chat.render([{ role: 'user', content: 'Who?' }], { tools: [spec(...names)] })).ids;
    const plain = controlsOf(await ids('x'));
    for (const control of published(name).control_tokens) {
      const hostile = await ids(control.slice(1), control.slice(1, -1));
      expect(controlsOf(hostile)).toEqual(plain);
      expect(text(hostile)).toContain(control.slice(1, -1));
    }
  });

  it.runIf(expected.refusesTools !== undefined)('passes on what the template says about a conversation that it refuses', async () => {
    const next: readonly Message[] = [{ role: 'tool', content: 'x', toolCallId: 'call00000' }];
    const refused = chat.renderNext([{ role: 'user', content: 'Who?' }], next);
    await expect(refused).rejects.toMatchObject({ name: 'PolicyError', retryable: false });
    await expect(refused).rejects.toThrow(expected.refusesTools);
  });

  const controlsOf = (ids: Int32Array) => [...ids].filter((id) => model.isSpecial(id));
});
