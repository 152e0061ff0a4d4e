import { setTimeout as delay } from 'node:timers/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { type AskCaller, CallerPolicy } from '../../src/clients/caller-policy.ts';
import { type CallerAnswer, type CallerQuestion, sampleOfIds, type TokenAnswer, type TokenQuestion } from '../../src/clients/caller-sample.ts';
import type { ChatLease, TokenLease } from '../../src/clients/policy-client.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { NumericPolicyError, PolicyError } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/message.ts';
import { type LocalTokenizer, openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { policyClientContract } from '../contracts/policy-client.ts';
import { temporaryFolder } from '../trainer/publisher/adapter-files.ts';
import { published, writeTemplateModel } from '../tokenizer/template-models.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const forever = new AbortController().signal;
const question: readonly Message[] = [{ role: 'user', content: 'Who wrote Hamlet?' }];
const tokenizer = await openLocalTokenizer(join(import.meta.dirname, '../../models/nano-base'));
const templated = await openLocalTokenizer(writeTemplateModel(folder.path, published('chatml')));
const sampling = { temperature: 0, topP: 1 };

/** A caller that writes the same text at every turn and samples past stop strings, up to the limit. */
const writes =
  (text: string, its: LocalTokenizer): AskCaller =>
  async ({ kind, maxNewTokens }) => {
    await delay(5);
    const { ids } = await its.encode(text);
    const tokenIds = maxNewTokens === null ? ids : ids.slice(0, maxNewTokens);
    const finish = tokenIds.length < ids.length ? 'length' : 'stop';
    if (kind === 'tokens') return { kind, tokenIds, logProbs: new Float64Array(tokenIds.length).fill(-0.5), finish };
    const usage = { promptTokens: 3, completionTokens: tokenIds.length, cachedTokens: null };
    return { kind, text: await its.decode(tokenIds), finish, usage };
  };

for (const [name, kind, its] of [
  ['by token ids', 'tokens', tokenizer],
  ['by token ids with a chat template', 'tokens', templated],
  ['by messages', 'chat', tokenizer],
] as const) {
  const open = async () => {
    const versions = new PolicyVersions({ version: 0, model: 'theirs' });
    const ask = writes('thé <stop>end</stop> more', its);
    const base = { versions, maxModelLen: 500, ask };
    const client = new CallerPolicy(kind === 'chat' ? { ...base, kind } : { ...base, kind, tokenizer: its });
    return { client, versions, [Symbol.asyncDispose]: () => client.close() };
  };
  const controls = {
    text: '<|im_end|>',
    ids: [...(await templated.render([{ role: 'user', content: 'a' }])).ids].filter((id) => templated.bytes.special[id] === 1),
  };
  const hasTurns = its === templated;
  const traits = {
    messages: question,
    stop: '</stop>',
    control: hasTurns ? controls : null,
    isSlow: true,
    kind,
    isWindowed: true,
    hasTurns,
    pictures: null,
  };
  policyClientContract(`CallerPolicy ${name}`, open, traits);
}

/** A lease whose questions are recorded and answered in order. */
async function tokenLease(answers: readonly (Partial<TokenAnswer> & { readonly text?: string })[], its = tokenizer) {
  const asked: TokenQuestion[] = [];
  const left = [...answers];
  const ask: AskCaller = async (it: CallerQuestion): Promise<CallerAnswer> => {
    asked.push(it as TokenQuestion);
    const { text = '', ...answer } = left.shift()!;
    const { ids: tokenIds } = await its.encode(text);
    return { kind: 'tokens', tokenIds, logProbs: [...tokenIds].map(() => -1), finish: 'stop', ...answer };
  };
  const policy = new CallerPolicy({ kind: 'tokens', tokenizer: its, ask });
  return { asked, lease: (await policy.lease(forever)) as TokenLease };
}

const request = { sampling, maxNewTokens: 64, stop: ['</search>'], signal: forever };

describe('CallerPolicy by token ids', () => {
  test('asks for each turn with the ids that the caller lacks and the length of the context', async () => {
    const { asked, lease } = await tokenLease([{ text: 'one' }, { text: 'two' }]);
    const prompt = (await lease.render(question, { format: 'continuation' })).ids;
    const first = await lease.generate({ ...request, prompt });
    const observation = await lease.encode('<information>a</information>');
    const longer = Int32Array.from([...prompt, ...first.ids, ...observation]);
    await lease.generate({ ...request, prompt: longer, maxNewTokens: null });
    expect(asked).toEqual([
      { kind: 'tokens', turn: 0, appendIds: prompt, contextLength: prompt.length, stop: ['</search>'], maxNewTokens: 64 },
      {
        kind: 'tokens',
        turn: 1,
        appendIds: longer.slice(prompt.length),
        contextLength: longer.length,
        stop: ['</search>'],
        maxNewTokens: null,
      },
    ]);
  });

  test('asks with the whole context where it was truncated', async () => {
    const { asked, lease } = await tokenLease([{ text: 'one' }, { text: 'two' }]);
    const prompt = (await lease.render(question, { format: 'continuation' })).ids;
    await lease.generate({ ...request, prompt });
    const cut = Int32Array.from([...prompt.slice(2), 5, 6]);
    await lease.generate({ ...request, prompt: cut, cut: true });
    expect(asked[1]).toMatchObject({ appendIds: cut, contextLength: cut.length });
  });

  test('drops what was sampled after the token that completes a stop string, and keeps its rest as tail', async () => {
    const text = 'a <search> b </search> and more';
    const { lease } = await tokenLease([{ text }]);
    const sample = await lease.generate({ ...request, prompt: await lease.encode('x') });
    expect(sample).toMatchObject({ text: 'a <search> b </search>', finish: 'stop', stopReason: '</search>' });
    const all = (await tokenizer.encode(text)).ids;
    expect(all.slice(0, sample.ids.length)).toEqual(sample.ids);
    expect(await tokenizer.decode(sample.ids)).toBe(sample.text + sample.tail);
    expect(sample.ids.length).toBeLessThan(all.length);
  });

  test('ends a turn of a conversation at the token that closes it, as a server does', async () => {
    const closing = (await templated.closingToken())!;
    const tokenIds = [...(await templated.encode('yes')).ids, closing, ...(await templated.encode('and on')).ids];
    const { lease } = await tokenLease([{ tokenIds, logProbs: tokenIds.map(() => -1), finish: 'length' }], templated);
    const sample = await lease.generate({ ...request, prompt: (await lease.render(question)).ids });
    expect(sample).toMatchObject({ text: 'yes', finish: 'stop', stopReason: closing });
    expect(sample.ids.at(-1)).toBe(closing);
  });

  test('records the version that the caller names', async () => {
    const { lease } = await tokenLease([{ text: 'a', version: 7 }, { text: 'b' }]);
    expect(lease.policy).toEqual({ version: 0, model: 'caller' });
    const prompt = await lease.encode('x');
    const { ids } = await lease.generate({ ...request, prompt });
    expect(lease.policy).toEqual({ version: 7, model: 'caller' });
    await lease.generate({ ...request, prompt: Int32Array.from([...prompt, ...ids, 5]) });
    expect(lease.policy.version).toBe(7);
  });

  test.each([
    [{ tokenIds: [5, 6], logProbs: [-1] }, /token_ids has 2 entries and logprobs has 1; they must have the same length/],
    [{ tokenIds: [tokenizer.vocabularySize], logProbs: [-1] }, /token_ids\[0\] is \d+; the tokenizer has ids from 0 to/],
    [{ tokenIds: [5, -1], logProbs: [-1, -1] }, /token_ids\[1\] is -1/],
    [{ tokenIds: [0.5], logProbs: [-1] }, /token_ids\[0\] is 0.5/],
    [
      { tokenIds: Array.from({ length: 65 }, () => 5), logProbs: Array.from({ length: 65 }, () => -1) },
      /65 entries, but max_new_tokens of this turn is 64/,
    ],
  ])('refuses an answer that no sampler can have given: %j', async (answer, message) => {
    const { lease } = await tokenLease([answer]);
    const generating = lease.generate({ ...request, prompt: await lease.encode('x') });
    await expect(generating).rejects.toThrow(message);
    await expect(generating).rejects.toBeInstanceOf(PolicyError);
    await expect(generating).rejects.not.toBeInstanceOf(NumericPolicyError);
  });

  test.each([0.5, NaN, Infinity, -Infinity])('fails the rollout for log-prob %d, also after the stop string', async (value) => {
    const { ids } = await tokenizer.encode('a</search>b');
    const { lease } = await tokenLease([{ tokenIds: ids, logProbs: [...ids].map((_, i) => (i === ids.length - 1 ? value : -1)) }]);
    await expect(lease.generate({ ...request, prompt: await lease.encode('x') })).rejects.toBeInstanceOf(NumericPolicyError);
  });

  test('refuses an answer of the other kind', async () => {
    const policy = new CallerPolicy({ kind: 'tokens', tokenizer, ask: async () => ({ kind: 'chat', text: 'a', finish: 'stop' }) });
    const lease = (await policy.lease(forever)) as TokenLease;
    await expect(lease.generate({ ...request, prompt: Int32Array.of(5) })).rejects.toThrow(
      'The caller was asked for token ids and answered with text. Answer in the kind of the question.',
    );
  });

  test('fails a rollout in play when the policy is closed', async () => {
    const policy = new CallerPolicy({ kind: 'tokens', tokenizer, ask: () => new Promise(() => {}) });
    const lease = (await policy.lease(forever)) as TokenLease;
    const generating = lease.generate({ ...request, prompt: Int32Array.of(5) });
    await policy.close();
    await expect(generating).rejects.toThrow('The client is closed');
    await expect(policy.lease(forever)).rejects.toBeInstanceOf(PolicyError);
  });
});

describe('text of sampled ids', () => {
  const options = { bytes: tokenizer.bytes, prompt: new Int32Array(0), stop: [], closingToken: null };
  test('a character that tokens share ends with the last of them; an incomplete one is left out', async () => {
    const { ids } = await tokenizer.encode('a🙂');
    const whole = sampleOfIds({ kind: 'tokens', tokenIds: ids, logProbs: [...ids].map(() => -1), finish: 'stop' }, options);
    expect([whole.text, whole.textEnds.at(-1)]).toEqual(['a🙂', 3]);
    const most = ids.slice(0, -1);
    const partial = sampleOfIds({ kind: 'tokens', tokenIds: most, logProbs: [...most].map(() => -1), finish: 'length' }, options);
    expect(partial).toMatchObject({ text: 'a', tail: '', finish: 'length', stopReason: null });
    expect(partial.textEnds.at(-1)).toBe(1);
  });
});

describe('CallerPolicy by messages', () => {
  async function answer(given: Partial<CallerAnswer> & { readonly text: string }) {
    const policy = new CallerPolicy({ kind: 'chat', ask: async () => ({ kind: 'chat', finish: 'stop', ...given }) as CallerAnswer });
    const lease = (await policy.lease(forever)) as ChatLease;
    return lease.generate({ ...request, prompt: question });
  }

  test('drops what follows the stop string that ends first', async () => {
    expect(await answer({ text: '<search> a </search> and </search>', finish: 'length' })).toMatchObject({
      text: '<search> a </search>',
      finish: 'stop',
      stopReason: '</search>',
    });
  });

  test('puts back the stop string that a chat API cut off', async () => {
    expect((await answer({ text: '<search> a' })).text).toBe('<search> a</search>');
    expect((await answer({ text: 'a', stopReason: '</search>' })).text).toBe('a</search>');
    expect((await answer({ text: '<search> a', finish: 'length' })).text).toBe('<search> a');
  });

  test('cannot continue a turn that is open', async () => {
    const policy = new CallerPolicy({ kind: 'chat', ask: async () => ({ kind: 'chat', text: 'a', finish: 'stop' }) });
    const lease = (await policy.lease(forever)) as ChatLease;
    await expect(lease.generate({ ...request, prompt: question, prefill: '<think>' })).rejects.toThrow(/Play this environment by token ids/);
  });
});
