import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { PolicyError } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/message.ts';
import { ChatTokenizer } from '../../src/tokenizer/chat-tokenizer.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';
import { templateTraits } from '../../src/tokenizer/template-traits.ts';
import { TokenizerMemory } from '../../src/tokenizer/tokenizer-memory.ts';
import type { TemplateRequest, TokenizerSource } from '../../src/tokenizer/tokenizer-source.ts';
import { temporaryFolder } from '../trainer/publisher/adapter-files.ts';
import { SEARCH } from './conformance-cases.ts';
import { published, writeTemplateModel } from './template-models.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const user = (content: string): Message => ({ role: 'user', content });
const assistant = (content: string): Message => ({ role: 'assistant', content });
const bare = (name: string) => writeTemplateModel(folder.path, published(name), { hasTemplate: false });

describe('ChatTokenizer of a model without a template', async () => {
  const directory = bare('chatml');
  const chat = await openLocalTokenizer(directory);
  const model = await openTokenizer(directory);
  const templated = await openLocalTokenizer(writeTemplateModel(folder.path, published('chatml')));

  it('renders chats in ChatML, calls of tools as Hermes', async () => {
    expect(await templateTraits(chat)).toEqual({
      chatTemplate: 'chatml',
      toolCalls: 'hermes',
      beginsWithBos: false,
      closingTokenId: model.encode('<|im_end|>', { addSpecialTokens: false })[0],
    });
    const messages = [user('Who?'), assistant('Shakespeare.'), user('When?')];
    expect(await chat.render(messages, { tools: [SEARCH] })).toEqual(await templated.render(messages, { tools: [SEARCH] }));
    expect(await chat.renderNext(messages, [user('Sure?')])).toEqual(await templated.renderNext(messages, [user('Sure?')]));
  });

  it('keeps any text of a message as it is, and makes no control token of it', async () => {
    const piece = fc.oneof(
      fc.constantFrom(
        '<|im_end|>',
        '<|im_start|>',
        '<|im_',
        'end|>',
        '<',
        '|>',
        '\uE0F0',
        '\uE0F1',
        '\uD800',
        '\n',
        ' ',
        '<tool_call>',
        '<|endoftext|>',
      ),
      fc.string({ unit: 'grapheme', maxLength: 5 }),
    );
    const controlsOf = (ids: Int32Array) => [...ids].filter((id) => model.isSpecial(id));
    const history = [user('Who?')];
    const plain = controlsOf((await chat.renderNext(history, [user('x')])).ids);
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 12 }), async (pieces) => {
        const text = pieces.join('');
        const { ids } = await chat.renderNext(history, [user(text)]);
        expect(controlsOf(ids)).toEqual(plain);
        expect(model.decode(ids, { skipSpecialTokens: false })).toBe(
          `<|im_end|>\n<|im_start|>user\n${text.toWellFormed()}<|im_end|>\n<|im_start|>assistant\n`,
        );
      }),
      { numRuns: 300 },
    );
  });

  it('leaves the text bare in continuation format', async () => {
    const messages: readonly Message[] = [{ role: 'system', content: 'Be brief.' }, user('Question: who?\n')];
    const { ids } = await chat.render(messages, { format: 'continuation' });
    expect([...ids]).toEqual([...model.encode('Be brief.\n\nQuestion: who?\n', { addSpecialTokens: false })]);
    const own = await templated.render(messages, { format: 'continuation' });
    expect(own).toEqual(await templated.render(messages));
  });

  it('cannot render chats without the control tokens, and says what to do', async () => {
    const llama = await openLocalTokenizer(bare('llama-3'));
    expect(await templateTraits(llama)).toMatchObject({ chatTemplate: null, toolCalls: null, closingTokenId: null });
    await expect(llama.render([user('Who?')])).rejects.toMatchObject({ name: 'ConfigError', message: expect.stringContaining('--chat-template') });
    expect((await llama.render([user('Who?')], { format: 'continuation' })).ids.length).toBeGreaterThan(0);
  });

  it('refuses images', async () => {
    const image = { sha256: 'a', mediaType: 'image/png', width: 1, height: 1 };
    for (const format of ['chat', 'continuation'] as const)
      await expect(chat.render([{ role: 'user', content: [{ type: 'image', image }] }], { format })).rejects.toMatchObject({ name: 'ConfigError' });
  });
});

describe('ChatTokenizer of a template that writes names into tags', () => {
  it('gets no control token from a name that the end of the tag completes', async () => {
    const directory = writeTemplateModel(folder.path, published('qwen-3-coder'));
    const [chat, model] = [await openLocalTokenizer(directory), await openTokenizer(directory)];
    const render = async (key: string) => {
      const toolCalls = [{ id: 'call00000', name: `search${key}`, arguments: JSON.stringify({ [key]: 'a' }) }];
      const { ids } = await chat.render([user('Who?'), { role: 'assistant', content: '', toolCalls }]);
      return { controls: [...ids].filter((id) => model.isSpecial(id)), text: model.decode(ids, { skipSpecialTokens: false }) };
    };
    const [hostile, harmless] = [await render('<|im_end|'), await render('x')];
    expect(hostile.controls).toEqual(harmless.controls);
    expect(hostile.text).toContain('<function=search<|im_end|>\n<parameter=<|im_end|>\na\n</parameter>');
  });
});

describe('ChatTokenizer of a tokenizer that begins each text with a space', () => {
  it('finds bridges, and never makes a control token of text that spells one', async () => {
    const directory = writeTemplateModel(join(folder.path, 'spaced'), published('chatml'), { hasTemplate: false });
    const path = join(directory, 'tokenizer.json');
    const json = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
    writeFileSync(
      path,
      JSON.stringify({ ...json, pre_tokenizer: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true } }),
    );
    const [chat, model] = [await openLocalTokenizer(directory), await openTokenizer(directory)];
    const { ids, neutralised } = await chat.encode('a<|im_end|>b');
    expect({ controls: [...ids].filter((id) => model.isSpecial(id)), neutralised, text: await chat.decode(ids) }).toEqual({
      controls: [],
      neutralised: 1,
      text: ' a<|im_end|>b',
    });
    const bridge = await chat.renderNext([user('Who?')], [user('When?')], { isClosed: true });
    expect(await chat.decode(bridge.ids)).toBe(' \n<|im_start|> user\nWhen?<|im_end|> \n<|im_start|> assistant\n');
  });
});

describe('ChatTokenizer of bare text', () => {
  it.each([
    ['a post-processor', {}, true],
    ['no post-processor', {}, false],
    // transformers 5 and vLLM ignore the setting next to a tokenizer.json.
    ['a post-processor, add_bos_token: false', { add_bos_token: false }, true],
    ['no post-processor, add_bos_token: true', { add_bos_token: true }, false],
  ])('begins with BOS where the model asks for it: %s', async (_, settings, asksForBos) => {
    const directory = writeTemplateModel(folder.path, published('llama-3'), { hasTemplate: false, beginsWithBos: asksForBos, settings });
    const [chat, model] = [await openLocalTokenizer(directory), await openTokenizer(directory)];
    const [bos] = model.encode('<|begin_of_text|>', { addSpecialTokens: false });
    const text = [...model.encode('Who?', { addSpecialTokens: false })];
    const render = async (how: 'model' | 'never') => [...(await chat.render([user('Who?')], { format: 'continuation', bos: how })).ids];
    expect(await render('model')).toEqual(asksForBos ? [bos, ...text] : text);
    expect(await render('never')).toEqual(text);
    expect((await templateTraits(chat)).beginsWithBos).toBe(asksForBos);
  });

  it('adds no second BOS to what a template writes', async () => {
    const directory = writeTemplateModel(folder.path, published('llama-3'), { beginsWithBos: true });
    const [chat, model] = [await openLocalTokenizer(directory), await openTokenizer(directory)];
    const [bos] = model.encode('<|begin_of_text|>', { addSpecialTokens: false }).slice(-1);
    for (const format of ['chat', 'continuation'] as const) {
      expect([...(await chat.render([user('Who?')], { format })).ids].filter((id) => id === bos)).toHaveLength(1);
    }
  });
});

describe('ChatTokenizer', async () => {
  const directory = writeTemplateModel(folder.path, published('qwen-3'));
  const model = await openTokenizer(directory);

  /** The model's tokenizer as a source that records what it is asked for. */
  function watched(change: Partial<TokenizerSource> = {}): {
    readonly source: TokenizerSource;
    readonly asked: { text: string[]; rendered: TemplateRequest[] };
  } {
    const asked = { text: [] as string[], rendered: [] as TemplateRequest[] };
    const source: TokenizerSource = {
      name: 'a test',
      tokenize: async (text, options) => {
        asked.text.push(text);
        const ids = [...model.encode(text, options)];
        return { ids, spellings: ids.map((id) => model.spelling(id)) };
      },
      detokenize: async (ids) => model.decode(Int32Array.from(ids), { skipSpecialTokens: false }),
      isControl: async (id) => model.isSpecial(id),
      renderTemplate: async (request) => {
        asked.rendered.push(request);
        const { messages, tools, addGenerationPrompt } = request;
        const variables = tools.length === 0 ? {} : { tools };
        const text = model.renderChat(
          messages.map((message) => ({ ...message })),
          { addGenerationPrompt, continueFinalMessage: false, variables },
        );
        return [...model.encode(text, { addSpecialTokens: false })];
      },
      ...change,
    };
    return { source, asked };
  }

  it('encodes no more for a bridge after long turns than after short ones', async () => {
    const ask = async (times: number) => {
      const { source, asked } = watched();
      const chat = new ChatTokenizer(source);
      await chat.closingToken();
      const before = { texts: asked.text.length, rendered: asked.rendered.length };
      const history = [user('Who? '.repeat(times)), assistant('Nobody knows. '.repeat(times)), user('When? '.repeat(times))];
      const { ids } = await chat.renderNext(history, [user('Sure?')], { isClosed: true });
      const size = JSON.stringify([asked.text.slice(before.texts), asked.rendered.slice(before.rendered)]).length;
      return { ids: [...ids], size, requests: asked.text.length - before.texts + asked.rendered.length - before.rendered };
    };
    const [long, longer] = [await ask(500), await ask(50_000)];
    expect(longer).toEqual(long);
  });

  it('examines a tokenizer once, for all callers', async () => {
    const { source, asked } = watched();
    const memory = new TokenizerMemory();
    const leases = Array.from({ length: 5 }, () => new ChatTokenizer(source, memory));
    await Promise.all(leases.map((lease) => lease.chatTemplate()));
    await Promise.all(leases.map((lease) => lease.closingToken()));
    expect(asked.rendered).toHaveLength(2);
  });

  it('renders the opening of a group once, and again for a caller whose neighbour was cancelled', async () => {
    const { source, asked } = watched();
    const memory = new TokenizerMemory();
    const opening = [user('Who wrote it?')];
    const group = Array.from({ length: 8 }, () => new ChatTokenizer(source, memory).render(opening));
    const [first, ...others] = await Promise.all(group);
    expect(others).toEqual(Array.from({ length: 7 }, () => first));
    const isOpening = ({ messages }: TemplateRequest) => messages.length === 1 && messages[0]!.content === opening[0]!.content;
    expect(asked.rendered.filter(isOpening)).toHaveLength(1);

    const cancelled = { ...source, renderTemplate: () => Promise.reject(new Error('cancelled')) };
    const next = [user('When?')];
    const outcomes = await Promise.allSettled([cancelled, source].map((of) => new ChatTokenizer(of, memory).render(next)));
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
    expect((await new ChatTokenizer(source).render(next)).ids).toEqual((outcomes[1] as PromiseFulfilledResult<typeof first>).value!.ids);
  });

  it('recognises a template that refuses a lone question', async () => {
    const { source } = watched({
      renderTemplate: async () => {
        throw new PolicyError('A system prompt is needed', { status: 400 });
      },
    });
    expect(await templateTraits(new ChatTokenizer(source))).toEqual({
      chatTemplate: 'model',
      toolCalls: null,
      beginsWithBos: false,
      closingTokenId: null,
    });
    const { source: broken } = watched({
      renderTemplate: async () => {
        throw new PolicyError('The server is gone', { status: 503 });
      },
    });
    await expect(templateTraits(new ChatTokenizer(broken))).rejects.toThrow('The server is gone');
  });

  it('refuses a template that leaves the turns of the assistant out', async () => {
    const { source } = watched({
      renderTemplate: async ({ messages }) => [
        ...model.encode(
          messages
            .filter(({ role }) => role === 'user')
            .map(({ content }) => content)
            .join(),
          { addSpecialTokens: false },
        ),
      ],
    });
    const chat = new ChatTokenizer(source);
    await expect(chat.renderNext([user('Who?')], [user('When?')])).rejects.toMatchObject({
      name: 'PolicyError',
      message: expect.stringContaining('does not write the content of an assistant message exactly once'),
    });
    expect(await chat.closingToken()).toBeNull();
  });

  it('gives calls whose arguments are not an object an empty one, as vLLM does', async () => {
    const { source, asked } = watched();
    const call = (args: string) => ({ id: 'call00000', name: 'search', arguments: args });
    const turn: Message = { role: 'assistant', content: '', toolCalls: [call('{"query": "a"}'), call('query: a'), call('[1]')] };
    await new ChatTokenizer(source).render([user('Who?'), turn], { tools: [SEARCH] });
    const calls = asked.rendered.find(({ messages }) => messages.length === 2)!.messages[1]!.tool_calls!;
    expect(calls.map((one) => one.function.arguments)).toEqual([{ query: 'a' }, {}, {}]);
  });

  it('shows the template the thoughts that came back with a turn, which make no control token', async () => {
    const chat = new ChatTokenizer(watched().source);
    const calls = { role: 'assistant', content: '', toolCalls: [{ id: 'call00000', name: 'search', arguments: '{}' }] } as const;
    const result: Message = { role: 'tool', content: 'A heron.', toolCallId: 'call00000' };
    const shown = async (reasoning: string) => {
      const { ids, neutralised } = await chat.render([user('Who?'), { ...calls, serverFields: { reasoning } }, result], { tools: [SEARCH] });
      return [model.decode(ids, { skipSpecialTokens: false }), neutralised] as const;
    };
    const [text] = await shown('The plan.');
    expect(text).toContain('<|im_start|>assistant\n<think>\nThe plan.\n</think>\n\n');
    expect((await shown('The <|im_end|> plan.'))[1]).toBe(1);
  });

  it('counts a control token only where the template wrote the text that spells it', async () => {
    const chat = new ChatTokenizer(watched().source);
    const thought = assistant('<think>\n<|im_end|>\n</think>\n\nNobody<|im_end|>.');
    const { ids, neutralised } = await chat.render([user('Who?'), thought, user('When?')]);
    expect(neutralised).toBe(1);
    expect(model.decode(ids, { skipSpecialTokens: false })).toContain('assistant\nNobody<|im_end|>.<|im_end|>\n');
  });
});
