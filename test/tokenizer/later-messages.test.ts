/** What comes behind a turn of the policy, rendered alone, is what the chat template writes there in the whole conversation; a system message that it cannot write there is read in tags; what else it cannot write is refused. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { PolicyError } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/message.ts';
import { LocalTokenizer } from '../../src/tokenizer/known-tokenizer.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';
import { published, writeTemplateModel } from './template-models.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-later-messages-'));
afterAll(() => rmSync(folder, { recursive: true }));

const user = (content: string): Message => ({ role: 'user', content });
const system = (content: string): Message => ({ role: 'system', content });
const own = (content: string, toolCalls: Message['toolCalls'] = []): Message => ({
  role: 'assistant',
  content,
  ...(toolCalls.length === 0 ? {} : { toolCalls }),
});
const call = { id: 'call00000', name: 'find', arguments: '{"query": "heron"}' };
const result: Message = { role: 'tool', content: 'grey', toolCallId: call.id };
const tools = [{ name: 'find', description: 'Finds.', parameters: { type: 'object', properties: { query: { type: 'string' } } } }];
const TURN = 'what was sampled';

/** Messages behind a turn, of which some are the agent's own words in the name of the model. */
const LATER: Readonly<Record<string, readonly Message[]>> = {
  'a question': [user('b')],
  nothing: [],
  'an own answer': [user('b'), own('mine'), user('c')],
  'an own answer with thoughts': [user('b'), own('<think>\nhm\n</think>\n\nmine'), user('c')],
  'an own answer at the end': [user('b'), own('mine')],
  'an own turn right behind the other': [own('mine'), user('c')],
  'an own call and its result': [user('b'), own('', [call]), result],
  'a result': [result],
  'a result and a question': [result, user('so?')],
  'a system message': [system('Be brief.'), user('b')],
  'a system message between questions': [user('b'), system('Be brief.'), user('c')],
  'two system messages': [user('b'), system('Be brief.'), system('Be kind.')],
  'a system message behind a result': [result, system('Be brief.')],
};

const REFUSED: Readonly<Record<string, readonly string[]>> = {
  'gemma-3': [
    'an own turn right behind the other',
    'an own call and its result',
    'a result',
    'a result and a question',
    'a system message behind a result',
  ],
  'deepseek-v3': ['an own call and its result'],
};

/** Those that take no system message behind a turn. */
const TAGGED = ['qwen-3-5', 'gemma-3', 'deepseek-v3', 'deepseek-v3-1'];
/** Those that write several system messages at the beginning as one, or are given one. */
const JOINED = ['qwen-3-5', 'gemma-3', 'deepseek-v3', 'deepseek-v3-1'];
const tag = (text: string) => `<system-reminder>\n${text}\n</system-reminder>`;
const IN_TAGS: Readonly<Record<string, readonly Message[]>> = {
  'a system message': [user(`${tag('Be brief.')}\n\nb`)],
  'a system message between questions': [user(`b\n\n${tag('Be brief.')}\n\nc`)],
  'two system messages': [user(`b\n\n${tag('Be brief.')}\n\n${tag('Be kind.')}`)],
  'a system message behind a result': [result, user(tag('Be brief.'))],
};

describe.each(['qwen-2-5', 'qwen-3', 'qwen-3-5', 'llama-3', 'llama-3-1', 'gemma-3', 'deepseek-v3', 'deepseek-v3-1'])(
  'with the template %s',
  (name) => {
    it('each list is rendered as in the whole conversation, or refused', async () => {
      const tokenizer = await openLocalTokenizer(writeTemplateModel(folder, published(name)));
      const refused: string[] = [];
      for (const [what, next] of Object.entries(LATER)) {
        const bridge = await tokenizer.renderNext([user('a')], next, { tools }).catch((error: unknown) => {
          if (error instanceof PolicyError && error.status === 400) return null;
          throw error;
        });
        if (bridge === null) {
          refused.push(what);
          continue;
        }
        const read = (TAGGED.includes(name) ? IN_TAGS[what] : undefined) ?? next;
        const whole = await tokenizer.decode((await tokenizer.render([user('a'), own(TURN), ...read], { tools })).ids);
        expect([what, await tokenizer.decode(bridge.ids)]).toEqual([what, whole.slice(whole.indexOf(TURN) + TURN.length)]);
      }
      expect(refused).toEqual(REFUSED[name] ?? []);
    });

    it('what an agent says as system before the first turn is in the first prompt, where the template can write it', async () => {
      const tokenizer = await openLocalTokenizer(writeTemplateModel(folder, published(name)));
      const text = async (messages: readonly Message[]) => tokenizer.decode((await tokenizer.render(messages, { tools })).ids);
      // As Claude Code begins, and Codex.
      const begun = await text([system('You help.'), user('a'), system('The folder is empty.')]);
      const led = await text([system('You help.'), system('Be brief.'), user('a')]);
      const inTags = await text([system('You help.'), user(`a\n\n${tag('The folder is empty.')}`)]);
      const asOne = await text([system('You help.\n\nBe brief.'), user('a')]);
      expect([begun === inTags, led === asOne]).toEqual([name === 'qwen-3-5', JOINED.includes(name)]);
      for (const said of ['The folder is empty.', 'You help.']) expect(begun).toContain(said);
      expect(led).toMatch(/You help\.[^]*Be brief\./);
    });

    it('goes on behind a first prompt with a later system message', async () => {
      const tokenizer = await openLocalTokenizer(writeTemplateModel(folder, published(name)));
      const history = [system('You help.'), user('a'), system('The folder is empty.')];
      const after = async (before: readonly Message[]) => tokenizer.decode((await tokenizer.renderNext(before, [user('b')], { tools })).ids);
      expect(await after(history)).toBe(await after([system('You help.'), user('a')]));
    });
  },
);

it('what stands before the turn is not encoded again', async () => {
  const directory = writeTemplateModel(folder, published('qwen-2-5'));
  const model = await openTokenizer(directory);
  const encoded: string[] = [];
  const encode: typeof model.encode = (text, options) => (encoded.push(text), model.encode(text, options));
  const counting = Object.assign(Object.create(model) as typeof model, {
    encode,
    renderChat: model.renderChat.bind(model),
    cutBefore: model.cutBefore.bind(model),
    spelling: model.spelling.bind(model),
    isSpecial: model.isSpecial.bind(model),
  });
  const tokenizer = new LocalTokenizer(directory, counting);
  const history = [user('heron '.repeat(20)), own('grey'), user('stone')];
  await tokenizer.renderNext(history, [user('first')]);
  encoded.length = 0;
  await tokenizer.renderNext(history, [user('second')]);
  expect(encoded.filter((text) => text.includes('second'))).toHaveLength(1);
  expect(encoded.join('')).not.toContain('heron');
});
