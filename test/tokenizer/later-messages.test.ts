/** What comes behind a turn of the policy, rendered alone, is what the chat template writes there in the whole conversation; what it cannot write there is refused. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { PolicyError } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/message.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { published, writeTemplateModel } from './template-models.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-later-messages-'));
afterAll(() => rmSync(folder, { recursive: true }));

const user = (content: string): Message => ({ role: 'user', content });
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
  'a system message': [{ role: 'system', content: 'Be brief.' }, user('b')],
};

const REFUSED: Readonly<Record<string, readonly string[]>> = {
  'qwen-3-5': ['a system message'],
  'gemma-3': ['an own turn right behind the other', 'an own call and its result', 'a result', 'a result and a question', 'a system message'],
  'deepseek-v3': ['an own call and its result', 'a system message'],
  'deepseek-v3-1': ['a system message'],
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
        const whole = await tokenizer.decode((await tokenizer.render([user('a'), own(TURN), ...next], { tools })).ids);
        expect([what, await tokenizer.decode(bridge.ids)]).toEqual([what, whole.slice(whole.indexOf(TURN) + TURN.length)]);
      }
      expect(refused).toEqual(REFUSED[name] ?? []);
    });
  },
);
