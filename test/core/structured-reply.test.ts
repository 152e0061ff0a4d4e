import { describe, expect, it } from 'vitest';
import { ModelError } from '../../src/core/errors.ts';
import { finalObject } from '../../src/core/json-reply.ts';
import type { Message } from '../../src/core/message.ts';
import type { Model, ModelReply, ModelRequest } from '../../src/core/model.ts';
import { structuredReply } from '../../src/core/structured-reply.ts';

const schema = { type: 'object', properties: { keep: { type: 'boolean' } }, required: ['keep'] };
const question: readonly Message[] = [{ role: 'user', content: 'Keep it?' }];
const read = ({ text }: ModelReply): { readonly keep: boolean } | string => {
  const found = finalObject(text);
  if (typeof found === 'string') return found;
  return typeof found.value['keep'] === 'boolean' ? { keep: found.value['keep'] } : 'it holds no "keep"';
};

function replying(...texts: readonly string[]) {
  const calls: { readonly messages: readonly Message[]; readonly request: ModelRequest }[] = [];
  const model: Model = {
    name: 'vetter-model',
    async generate(messages, request) {
      calls.push({ messages, request });
      return { text: texts[calls.length - 1]!, usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null }, finish: 'stop', version: null };
    },
  };
  const ask = () =>
    structuredReply(model, question, {
      role: 'vetter',
      maxTokens: 64,
      responseSchema: schema,
      read,
      wanted: 'verdict',
      signal: new AbortController().signal,
    });
  return { calls, ask };
}

describe('structuredReply', () => {
  it('asks once where the reply can be used, with the schema and a test for caches', async () => {
    const { calls, ask } = replying('{"keep": true}');
    expect(await ask()).toEqual({ keep: true });
    expect(calls).toHaveLength(1);
    const { request } = calls[0]!;
    expect(request).toMatchObject({ maxTokens: 64, responseSchema: schema });
    const usable = (text: string) =>
      request.isUsable!({ text, usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null }, finish: 'stop', version: null });
    expect([usable('{"keep": false}'), usable('no')]).toEqual([true, false]);
  });

  it.each([
    ['no', 'no', 'it holds no JSON object'],
    [' ', ' ', 'it holds no JSON object'],
    ['{"drop": true}', '{"drop": true}', 'it holds no "keep"'],
  ])('asks once more after %j, in the same conversation, and says what was wrong', async (text, shown, problem) => {
    const { calls, ask } = replying(text, '{"keep": false}');
    expect(await ask()).toEqual({ keep: false });
    const repair = `Your reply cannot be used: ${problem}. Reply with one JSON object that fits this JSON Schema, and nothing else: ${JSON.stringify(schema)}`;
    expect(calls[1]!.messages).toEqual([...question, { role: 'assistant', content: shown }, { role: 'user', content: repair }]);
  });

  it('fails after a second reply that cannot be used, and quotes its beginning', async () => {
    const { calls, ask } = replying('no', `never ${'x'.repeat(500)}`);
    const error = await ask().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ModelError);
    expect(error).toMatchObject({ role: 'vetter', reason: 'malformed', retryable: false });
    expect((error as Error).message).toMatch(
      /^The model of role vetter \(vetter-model\) gave no usable verdict in two replies\. The second reply cannot be used: it holds no JSON object\. It was "never x{194}…"\.$/,
    );
    expect(calls).toHaveLength(2);
  });
});
