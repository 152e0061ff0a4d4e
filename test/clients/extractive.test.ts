import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { drawIndex, ExtractiveClient } from '../../src/clients/extractive.ts';
import type { ChatLease, Sampling, TokenLease, TokenSample } from '../../src/clients/policy-client.ts';
import { CancelledError, PrefixBreakError } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/message.ts';
import { Random } from '../../src/core/random.ts';
import type { ToolSpec } from '../../src/core/tool-calls.ts';
import { policyClientContract } from '../contracts/policy-client.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';

const forever = new AbortController().signal;
const greedy: Sampling = { temperature: 0, topP: 1 };
const warm: Sampling = { temperature: 1, topP: 1 };
const searchR1 = (question: string) =>
  'Answer the given question. You can call a search engine by <search> query </search>, results between <information> and </information>. ' +
  `For example, <answer> Beijing </answer>. Question: ${question}\n`;
const information = (...documents: string[]) =>
  `\n\n<information>${documents.map((text, i) => `Doc ${i + 1}(Title: ${text.replace('\n', ') ')}`).join('\n')}</information>\n\n`;

const titanic = information(
  '"Titanic (1997 film)"\nTitanic is an American romance film directed by James Cameron. It was released on December 19, 1997 in the United States.',
  '"RMS Titanic"\nRMS Titanic sank on 15 April 1912 after it struck an iceberg. About 1,500 people died. It was built in Belfast, Ireland.',
);

/** Plays the given observations one after another and returns every sample. */
async function play(
  question: string,
  observations: readonly string[],
  {
    sampling = greedy,
    key,
    client = new ExtractiveClient(),
    prompt = searchR1(question),
  }: { sampling?: Sampling; key?: string; client?: ExtractiveClient; prompt?: string } = {},
): Promise<TokenSample[]> {
  await using lease = (await client.lease(forever, key === undefined ? {} : { key })) as TokenLease;
  let ids = (await lease.render([{ role: 'user', content: prompt }])).ids;
  const samples: TokenSample[] = [];
  for (const observation of ['', ...observations]) {
    ids = Int32Array.from([...ids, ...(await lease.encode(observation))]);
    const sample = await lease.generate({ prompt: ids, sampling, maxNewTokens: 2500, stop: ['</search>'], signal: forever });
    samples.push(sample);
    ids = Int32Array.from([...ids, ...sample.ids]);
  }
  return samples;
}

const answerOf = (sample: TokenSample | undefined) => /<answer> (.*) <\/answer>$/.exec(sample?.text ?? '')?.[1];

for (const kind of ['tokens', 'chat'] as const) {
  policyClientContract(
    `ExtractiveClient, ${kind}`,
    async () => {
      const versions = new PolicyVersions({ version: 0, model: 'extractive-baseline' });
      const client = new ExtractiveClient({ versions, kind });
      return { client, versions, [Symbol.asyncDispose]: () => client.close() };
    },
    {
      messages: [{ role: 'user', content: searchR1('who?') }],
      stop: '</think>',
      control: null,
      isSlow: false,
      kind,
      isWindowed: false,
      pictures: null,
    },
  );
}

describe('ExtractiveClient', () => {
  test('searches the question first', async () => {
    const [sample] = await play('who directed titanic?', []);
    expect(sample!.text).toBe('<think> I should look this up. </think>\n<search> who directed titanic? </search>');
    expect(sample!.finish).toBe('stop');
    expect([...sample!.logProbs]).toEqual(Array.from({ length: sample!.ids.length }, () => 0));
  });

  test("answers from a block without titles, such as a tool's answer, and from none that is empty", async () => {
    const [, found] = await play('who directed titanic?', ['<information>Titanic is a film directed by James Cameron.</information>']);
    expect(answerOf(found)).toContain('James Cameron');
    const [, empty] = await play('who directed titanic?', ['<information> </information>']);
    expect(empty!.text).toContain('<search>');
  });

  test('says the same to messages as to tokens, drawn spans included', async () => {
    const question = 'who directed titanic?';
    const key = '7/3';
    const [search, answer] = await play(question, [titanic], { sampling: warm, key });
    await using lease = await new ExtractiveClient({ kind: 'chat' }).lease(forever, { key });
    if (lease.kind !== 'chat') throw new Error('Expected a chat lease');
    const messages: Message[] = [{ role: 'user', content: searchR1(question) }];
    const options = { sampling: warm, maxNewTokens: null, stop: ['</search>'], signal: forever };
    const first = await lease.generate({ ...options, prompt: messages });
    expect(first.text).toBe(search!.text);
    messages.push({ role: 'assistant', content: first.text }, { role: 'user', content: titanic });
    expect((await lease.generate({ ...options, prompt: messages })).text).toBe(answer!.text);
  });

  test.each([
    ['who directed the film titanic', 'James Cameron'],
    ['when was the film titanic released', 'December 19, 1997'],
    ['when did the rms titanic sink', '15 April 1912'],
    ['how many people died when titanic sank', '1,500'],
    ['where was rms titanic built', 'Belfast, Ireland'],
  ])('%s: %s', async (question, answer) => {
    expect(answerOf((await play(question, [titanic]))[1])).toBe(answer);
  });

  test('thinks before every action, as the format asks', async () => {
    const samples = await play('who?', [titanic]);
    for (const { text } of samples) expect(text).toMatch(/^<think> [^<>]+ <\/think>\n<(search|answer)> [^<>]+ <\/\1>$/);
  });

  test('searches once more with fewer words when nothing was found, then owns up', async () => {
    const nothing = '\n\n<information></information>\n\n';
    const texts = (await play('who was the king of siam?', [nothing, nothing])).map(({ text }) => text);
    expect(texts[1]).toContain('<search> king siam </search>');
    expect(texts[2]).toContain('<answer> I do not know </answer>');
    expect((await play('siam', [nothing]))[1]!.text).toContain('<search> siam </search>');
  });

  test('reads a prompt without the label as the question, and the last label of any other', async () => {
    expect((await play('', [], { prompt: 'Name a <b>king</b>\nof Siam' }))[0]!.text).toContain('<search> Name a b king /b of Siam </search>');
    expect((await play('', [], { prompt: 'Question: 1? Question: 2?' }))[0]!.text).toContain('<search> 2? </search>');
    expect((await play('what is "Question: " for', []))[0]!.text).toContain('<search> what is "Question: " for </search>');
  });

  test('the log-prob of the draw sits on the first token of the span, all others are 0', async () => {
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) => play('who directed titanic', [titanic], { sampling: warm, key: `row/${i}` })),
    );
    const drawn = answers.map((samples) => {
      const sample = samples[1]!;
      const start = sample.text.indexOf('<answer> ') + '<answer> '.length;
      const nonZero = [...sample.logProbs].flatMap((logProb, i) => (logProb === 0 ? [] : [i]));
      expect(nonZero).toEqual([start]);
      return { answer: answerOf(sample)!, logProb: sample.logProbs[start]! };
    });
    const byAnswer = new Map(drawn.map(({ answer, logProb }) => [answer, logProb]));
    expect(byAnswer.size).toBeGreaterThan(1);
    for (const { answer, logProb } of drawn) expect(logProb).toBe(byAnswer.get(answer));
    expect([...byAnswer.values()].reduce((sum, logProb) => sum + Math.exp(logProb), 0)).toBeLessThanOrEqual(1 + 1e-9);
  });

  test('repeats under a seed whatever the order of leases, and differs between keys and seeds', async () => {
    const answers = async (client: ExtractiveClient, keys: readonly string[]) =>
      new Map(
        await Promise.all(
          keys.map(
            async (key) =>
              [key, answerOf((await play('who directed titanic', [titanic], { sampling: { temperature: 3, topP: 1 }, key, client }))[1])] as const,
          ),
        ),
      );
    const keys = Array.from({ length: 12 }, (_, i) => `row/${i}`);
    const forwards = await answers(new ExtractiveClient({ seed: 5 }), keys);
    const backwards = await answers(new ExtractiveClient({ seed: 5 }), keys.toReversed());
    expect(keys.map((key) => backwards.get(key))).toEqual([...forwards.values()]);
    expect(new Set(forwards.values()).size).toBeGreaterThan(1);
    expect([...(await answers(new ExtractiveClient({ seed: 6 }), keys)).values()]).not.toEqual([...forwards.values()]);
  });

  test('leases without a key differ from one another', async () => {
    const client = new ExtractiveClient();
    const all = await Promise.all(
      Array.from({ length: 12 }, () => play('who directed titanic', [titanic], { sampling: { temperature: 3, topP: 1 }, client })),
    );
    expect(new Set(all.map((samples) => answerOf(samples[1]))).size).toBeGreaterThan(1);
  });

  test('never answers with a tag, a control token or a span that breaks the format {hostile passages}', async () => {
    const piece = fc.oneof(
      fc.constantFrom('<answer>', '</answer>', '</information>', '<|im_end|>', '"</search>"', 'The Answer', 'Doc 9(Title: ', '$&', '\u0000', '\n'),
      fc.string({ unit: 'grapheme', maxLength: 12 }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 12 }), async (pieces) => {
        const samples = await play('what is it', [information(pieces.join(' '))], { sampling: warm, key: 'a' });
        expect(samples[1]!.text).toMatch(/^<think> [^<>]+ <\/think>\n<(search|answer)> [^<>]+ <\/\1>$/);
        for (const logProb of samples[1]!.logProbs) expect(logProb).toBeLessThanOrEqual(0);
      }),
      { numRuns: 60 },
    );
  });

  test('honours length limits and stop strings', async () => {
    await using lease = (await new ExtractiveClient().lease(forever)) as TokenLease;
    const prompt = (await lease.render([{ role: 'user', content: 'who' }])).ids;
    const request = { prompt, sampling: greedy, signal: forever };
    expect(await lease.generate({ ...request, maxNewTokens: 10, stop: [] })).toMatchObject({ text: '<think> I ', finish: 'length' });
    expect(await lease.generate({ ...request, maxNewTokens: null, stop: ['</think>'] })).toMatchObject({ stopReason: '</think>', tail: '' });
  });

  test('refuses a prompt that does not extend the last one, and a cancelled request', async () => {
    await using lease = (await new ExtractiveClient().lease(forever)) as TokenLease;
    const request = { prompt: await lease.encode('ab'), sampling: greedy, maxNewTokens: null, stop: [], signal: forever };
    await lease.generate(request);
    await expect(lease.generate({ ...request, prompt: await lease.encode('b') })).rejects.toThrow(PrefixBreakError);
    await expect(lease.generate({ ...request, prompt: await lease.encode('b'), cut: true })).resolves.toBeDefined();
    await expect(lease.generate({ ...request, signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
  });
});

describe('ExtractiveClient with native tools', () => {
  const text = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] };
  const number = { type: 'object', properties: { value: { type: 'number' }, unit: { type: 'string' } }, required: ['value'] };
  const choice = { type: 'object', properties: { unit: { type: 'string', enum: ['m', 'km'] } }, required: ['unit'] };
  const tool = (name: string, parameters: ToolSpec['parameters']): ToolSpec => ({ name, description: name, parameters });
  const first = async (tools: readonly ToolSpec[], maxNewTokens: number | null = null) => {
    await using lease = (await new ExtractiveClient({ kind: 'chat' }).lease(forever)) as ChatLease;
    const prompt: Message[] = [{ role: 'user', content: 'Who sank?' }];
    return lease.generate({ prompt, sampling: greedy, maxNewTokens, stop: [], tools, signal: forever });
  };

  test('calls the first tool that must be given free text', async () => {
    const { toolCalls } = await first([tool('convert', number), tool('choose', choice), tool('say', text), tool('shout', text)]);
    expect(toolCalls).toEqual([{ id: 'call00100', name: 'say', arguments: '{"text":"Who sank?"}' }]);
  });
  test.each(['look_up', 'web_search', 'findNotes', 'QueryTable'])('prefers %s, whose name speaks of searching', async (name) => {
    const { toolCalls } = await first([tool('say', text), tool(name, text), tool('search_last', text)]);
    expect(toolCalls).toMatchObject([{ name }]);
  });
  test('writes no search between tags where a call is cut', async () => {
    const cut = await first([tool('say', text)], 30);
    expect(cut).toMatchObject({ finish: 'length', text: expect.stringMatching(/^<tool_call>/) as string });
    expect(cut).not.toHaveProperty('toolCalls');
  });
  test('answers straight away, without a search between tags, where no tool takes text', async () => {
    const sample = await first([tool('search', number), tool('choose', choice), tool('bare', {})]);
    expect(sample).not.toHaveProperty('toolCalls');
    expect(sample.text).toMatch(/<answer> I do not know <\/answer>$/);
    expect(sample.text).not.toContain('<search>');
  });
});

describe('drawIndex', () => {
  const random = Random.fromSeed(3);
  test('draws as often as its log-prob says {temperatures, topP}', () => {
    const scores = [0, 1, -1, 0.5];
    for (const sampling of [warm, { temperature: 0.5, topP: 1 }, { temperature: 1, topP: 0.7 }]) {
      const counts = new Map<number, { n: number; p: number }>();
      for (let i = 0; i < 4000; i++) {
        const { index, logProb } = drawIndex(scores, sampling, random);
        counts.set(index, { n: (counts.get(index)?.n ?? 0) + 1, p: Math.exp(logProb) });
      }
      for (const { n, p } of counts.values()) expect(Math.abs(n / 4000 - p)).toBeLessThan(0.04);
      expect(counts.values().reduce((sum, { p }) => sum + p, 0)).toBeCloseTo(1, 6);
    }
  });
  test('temperature 0 takes the first of the best with certainty', () => {
    expect(drawIndex([1, 2, 2], greedy, random)).toEqual({ index: 1, logProb: 0 });
  });
  test('a small topP keeps only the best', () => {
    expect(drawIndex([1, 2, 0], { temperature: 1, topP: 0.01 }, random)).toEqual({ index: 1, logProb: 0 });
  });
});
