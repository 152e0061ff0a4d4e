/** Clients of other projects, unmodified, against `vf-serve policy` and `vf-serve retrieve`. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describePeer, resultLine, runPeer, servedModel } from './peer.ts';
import { type ServedCommand, serveCommand } from './serve-command.ts';

const TIME = { timeoutMs: 200_000 };
const QUESTION = 'Who is the mayor of Kinzer?';

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

interface OpenAiRun {
  readonly version: string;
  readonly models: readonly string[];
  readonly completion: {
    readonly text: string;
    readonly text_by_ids: string;
    readonly prompt_ids: readonly number[];
    readonly prompt_ids_by_ids: readonly number[];
    readonly ids: readonly number[];
    readonly log_probs: readonly number[];
    readonly top: readonly number[];
    readonly finish: string;
    readonly usage: Usage;
    readonly batch: readonly (readonly [number, string])[];
    readonly sampled: readonly number[];
    readonly streamed: string;
    readonly chunks: number;
    readonly streamed_usage: Usage;
  };
  readonly concurrent: readonly string[];
  readonly chat: {
    readonly text: string;
    readonly role: string;
    readonly finish: string;
    readonly usage: Usage;
    readonly log_probs: readonly number[];
    readonly streamed: string;
    readonly chunks: number;
    readonly streamed_usage: Usage;
    readonly accumulated: string;
  };
  readonly unknown_model: readonly [string, number, string];
  readonly too_long: readonly [string, number, string];
}

describePeer('clients', { quick: false }, () => {
  let server: ServedCommand;
  beforeAll(async () => {
    server = await serveCommand(['retrieve', '--corpus', 'fact-world']);
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  it('openai completes by text and by ids, chats and streams', async () => {
    const [{ url, model }, chat] = [await servedModel(), await servedModel('chat')];
    const run = await runPeer<OpenAiRun>('clients', 'openai_client', [url, model, chat.url], TIME);
    expect(run.models).toContain(model);
    const { completion, chat: answer } = run;
    expect(completion.text).not.toBe('');
    expect(completion.text_by_ids).toBe(completion.text);
    expect(completion.prompt_ids_by_ids).toEqual(completion.prompt_ids);
    expect(completion.streamed).toBe(completion.text);
    expect(completion.chunks).toBeGreaterThan(2);
    const [prompt, sampled] = [completion.prompt_ids.length, completion.ids.length];
    const usage = { prompt_tokens: prompt, completion_tokens: sampled, total_tokens: prompt + sampled };
    expect(completion).toMatchObject({ usage, streamed_usage: usage });
    expect(completion.log_probs).toHaveLength(completion.ids.length);
    expect(Math.max(...completion.log_probs)).toBeLessThanOrEqual(0);
    expect(new Set(completion.top)).toEqual(new Set([2]));
    expect(completion.batch.map(([index]) => index)).toEqual([0, 1]);
    expect(completion.batch[0]![1]).toBe(completion.text);
    expect(completion.sampled).toEqual([0, 1, 2]);
    expect(run.concurrent).toEqual([completion.text]);
    expect(answer).toMatchObject({ role: 'assistant', streamed: answer.text, accumulated: answer.text });
    expect(answer.streamed_usage.total_tokens).toBe(answer.usage.total_tokens);
    expect(answer.text).not.toBe('');
    expect(answer.log_probs).toHaveLength(answer.usage.completion_tokens);
    expect(run.unknown_model.slice(0, 2)).toEqual(['NotFoundError', 404]);
    expect(run.too_long.slice(0, 2)).toEqual(['BadRequestError', 400]);
    resultLine('openai', run.version, 'vf-serve policy: completions by text and ids, chat, streams, errors', `the same ${sampled} tokens each way`);
  });

  it('upstream’s batch_search reads the passages of vf-serve retrieve', async () => {
    const queries = [QUESTION, 'What is the river of Kinzer?'];
    interface Run {
      readonly version: string;
      readonly texts: readonly string[];
      readonly scores: readonly (readonly number[])[];
    }
    const { version, texts, scores } = await runPeer<Run>('clients', 'search_r1', [server.url, JSON.stringify(queries)], TIME);
    expect(texts.map((text) => text.split('\n')[0])).toEqual([
      'Doc 1(Title: Kinzer) The mayor of Kinzer is Purorka.',
      'Doc 1(Title: Kinzer) The river of Kinzer is Zumardle.',
    ]);
    expect(texts[0]!.trimEnd().split('\n')).toHaveLength(3);
    expect(scores.map((each) => each.length)).toEqual([3, 3]);
    for (const each of scores) expect(each).toEqual(each.toSorted((a, b) => b - a));
    resultLine(
      'Search-R1 batch_search',
      `a14dc3a4, requests ${version}`,
      'vf-serve retrieve: two queries, topk 3, with scores',
      'right passages first',
    );
  });

  it('skyrl-gym’s SearchEnv plays an episode with vf-serve retrieve', async () => {
    interface Run {
      readonly version: string;
      readonly response: { readonly result: readonly (readonly { readonly document: { readonly contents: string } }[])[] };
      readonly error: string | null;
      readonly observation: string;
      readonly done: readonly boolean[];
      readonly rewards: readonly number[];
    }
    const run = await runPeer<Run>('clients', 'skyrl_search', [server.url, QUESTION, 'Purorka'], TIME);
    expect(run.error).toBeNull();
    expect(run.response.result[0]!.map(({ document }) => document.contents)).toHaveLength(2);
    expect(run.observation).toContain('The mayor of Kinzer is Purorka.');
    expect([run.done, run.rewards]).toEqual([
      [false, true],
      [0, 1],
    ]);
    resultLine('skyrl-gym', run.version, 'vf-serve retrieve: SearchEnv searches and answers', `reward ${run.rewards[1]}`);
  });
});
