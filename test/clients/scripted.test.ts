import { describe, expect, test } from 'vitest';
import type { ChatLease, GenerateRequest, TokenLease } from '../../src/clients/policy-client.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { ScriptedClient, type ScriptedOptions, type ScriptedTurn } from '../../src/clients/scripted.ts';
import { byteTokenizer } from '../../src/clients/text-tokenizer.ts';
import { CancelledError, PolicyError, PrefixBreakError, PromptTooLongError } from '../../src/core/errors.ts';
import { contentText, type Message } from '../../src/core/message.ts';
import { policyClientContract } from '../contracts/policy-client.ts';
import { paintedStore } from '../images/painted-store.ts';

const forever = new AbortController().signal;
const question: readonly Message[] = [{ role: 'user', content: 'Who?' }];
const sampling = { temperature: 1, topP: 1 };

async function tokenLease(options: ScriptedOptions, key?: string): Promise<TokenLease> {
  return (await new ScriptedClient(options).lease(forever, key === undefined ? {} : { key })) as TokenLease;
}

async function generate(options: ScriptedOptions, more: Partial<GenerateRequest<Int32Array>> = {}) {
  const lease = await tokenLease(options);
  return lease.generate({ prompt: (await lease.render(question)).ids, sampling, maxNewTokens: null, stop: [], signal: forever, ...more });
}

const painted = await paintedStore(3, 64, 48);

for (const options of [{ kind: 'tokens' }, { kind: 'tokens', tokenizer: 'code-points' }, { kind: 'chat' }] as const) {
  const open = async () => {
    const versions = new PolicyVersions({ version: 0, model: 'script' });
    const client = new ScriptedClient({ ...options, versions, maxModelLen: 500, turns: () => 'thé <stop>end</stop> more' });
    return { client, versions, [Symbol.asyncDispose]: () => client.close() };
  };
  const pictures = options.kind === 'chat' ? { ...painted, areRead: false, rules: null, tokens: 0 } : null;
  const traits = { messages: question, stop: '</stop>', control: null, isSlow: false, kind: options.kind, isWindowed: true, pictures };
  policyClientContract(`ScriptedClient ${JSON.stringify(options)}`, open, traits);
}

describe('ScriptedClient', () => {
  test('plays the turns of each lease in order', async () => {
    const client = new ScriptedClient({ turns: ['one', 'two'] });
    for (let i = 0; i < 2; i++) {
      const lease = (await client.lease(forever)) as TokenLease;
      const prompt = (await lease.render(question)).ids;
      const request = { prompt, sampling, maxNewTokens: null, stop: [], signal: forever };
      expect((await lease.generate(request)).text).toBe('one');
      expect((await lease.generate(request)).text).toBe('two');
      await expect(lease.generate(request)).rejects.toThrow(/only 2 turns, but another was requested/);
    }
  });

  test('gives a script the turn, the messages, the ids and the key', async () => {
    const seen: ScriptedTurn[] = [];
    const lease = await tokenLease({ turns: (turn) => (seen.push(turn), 'x') }, 'row/3');
    const prompt = (await lease.render(question)).ids;
    await lease.generate({ prompt, sampling, maxNewTokens: null, stop: [], signal: forever });
    expect(seen).toEqual([{ index: 0, messages: question, ids: byteTokenizer.encode('Who?'), key: 'row/3' }]);
  });

  test('ends at the stop string that is complete first, and keeps it', async () => {
    const sample = await generate({ turns: ['a</search>b</answer>'] }, { stop: ['</answer>', '</search>', '</s'] });
    expect(sample).toMatchObject({ text: 'a</s', tail: '', finish: 'stop', stopReason: '</s' });
    expect(sample.ids).toHaveLength(4);
  });

  test('ends naturally without a stop string', async () => {
    expect(await generate({ turns: ['héllo'] })).toMatchObject({
      text: 'héllo',
      finish: 'stop',
      stopReason: null,
      usage: { promptTokens: 4, completionTokens: 6, cachedTokens: null },
    });
  });

  test('ends at the length limit, inside a character if need be', async () => {
    const sample = await generate({ turns: ['hé!'] }, { maxNewTokens: 2, stop: ['!'] });
    expect(sample).toMatchObject({ text: 'h', tail: '', finish: 'length', stopReason: null });
    expect([...sample.ids]).toEqual([0x68, 0xc3]);
  });

  test('keeps the whole token that completes a stop string, and its rest as the tail', async () => {
    const words = {
      ...byteTokenizer,
      encodeSampled: (text: string) => ({ text, ids: Int32Array.of(1, 2, 3), textEnds: Int32Array.of(2, 7, text.length) }),
    };
    const sample = await generate({ turns: ['ab</x>\nmore'], tokenizer: words }, { stop: ['</x>'] });
    expect(sample).toMatchObject({ text: 'ab</x>', tail: '\n', stopReason: '</x>' });
    expect([...sample.ids]).toEqual([1, 2]);
  });

  test('leaves control tokens out of the text but not out of the ids', async () => {
    const sample = await generate({ turns: ['ok<|im_end|>'], tokenizer: 'code-points' });
    expect(sample.text).toBe('ok');
    expect([...sample.textEnds]).toEqual([1, 2, 2]);
  });

  test('gives the log-probs it was given', async () => {
    expect([...(await generate({ turns: ['ab'], logProb: -0.5 })).logProbs]).toEqual([-0.5, -0.5]);
    expect([...(await generate({ turns: ['ab'], logProb: (i, id) => -i - id })).logProbs]).toEqual([-97, -99]);
  });

  test('has a window: caps the answer at the room left, and refuses a prompt without any', async () => {
    expect(await generate({ turns: ['abc'], maxModelLen: 6 })).toMatchObject({ text: 'ab', finish: 'length' });
    await expect(generate({ turns: ['abc'], maxModelLen: 4 })).rejects.toThrow(PromptTooLongError);
  });

  test('answers chat requests with text only', async () => {
    const client = new ScriptedClient({ kind: 'chat', turns: ({ messages }) => `${contentText(messages.at(-1)!.content)} yes </stop> no` });
    expect(client.capabilities).toMatchObject({ kind: 'chat', tokenizerHash: null, logProbsMode: 'none' });
    const lease = (await client.lease(forever)) as ChatLease;
    const sample = await lease.generate({ prompt: question, sampling, maxNewTokens: null, stop: ['</stop>'], signal: forever });
    expect(sample).toEqual({
      text: 'Who? yes </stop>',
      finish: 'stop',
      stopReason: '</stop>',
      usage: { promptTokens: 4, completionTokens: 16, cachedTokens: null },
    });
  });

  test('passes on what the script throws', async () => {
    const down = new PolicyError('down', { retryable: true });
    const turns = () => {
      throw down;
    };
    await expect(generate({ turns })).rejects.toBe(down);
  });

  test('refuses a prompt that does not extend the last one', async () => {
    const lease = await tokenLease({ turns: ['a', 'b'] });
    const request = { prompt: Int32Array.of(1, 2), sampling, maxNewTokens: null, stop: [], signal: forever };
    await lease.generate(request);
    await expect(lease.generate({ ...request, prompt: Int32Array.of(1, 3) })).rejects.toThrow(PrefixBreakError);
  });

  test('is cancelled by the signals of lease and request', async () => {
    await expect(new ScriptedClient({ turns: [] }).lease(AbortSignal.abort())).rejects.toThrow(CancelledError);
    await expect(generate({ turns: ['a'] }, { signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
  });

  test('a lease holds its version until it is disposed', async () => {
    const versions = new PolicyVersions({ version: 4, model: 'm' });
    const lease = await tokenLease({ turns: [], versions });
    versions.advance({ version: 5, model: 'm5' });
    expect(lease.policy).toEqual({ version: 4, model: 'm' });
    let drained = false;
    const wait = versions.drained(4, forever).then(() => (drained = true));
    await Promise.resolve();
    expect(drained).toBe(false);
    await lease[Symbol.asyncDispose]();
    await wait;
  });
});
