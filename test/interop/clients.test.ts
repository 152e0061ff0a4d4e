/** Clients of other projects, unmodified, against `vf-serve policy` and `vf-serve retrieve`. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describePeer, resultLine, runPeer, servedModel } from './peer.ts';
import { type ServedCommand, serveCommand } from './serve-command.ts';

const TIME = { timeoutMs: 200_000 };
const NANO = join(import.meta.dirname, '../../models/nano-base');
const QUESTION = 'Who is the mayor of Kinzer?';
const QUERIES = [QUESTION, 'What is the river of Kinzer?'];

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

/** What the model says to a prompt if asked without a client: its most probable 24 tokens, until it searches. */
async function greedy(url: string, model: string, prompt: string): Promise<string> {
  const [choice] = await complete(url, { model, prompt, temperature: 0, max_tokens: 24, stop: ['</search>'] });
  return choice.text;
}

/** Of a continuation, by the server's other way of judging tokens. */
async function logLikelihoodOf(url: string, model: string, context: string, continuation: string): Promise<number> {
  const ask = { model, max_tokens: 1, temperature: 0, prompt_logprobs: 0, return_token_ids: true };
  const [short] = await complete(url, { ...ask, prompt: context });
  const [long] = await complete(url, { ...ask, prompt: context + continuation });
  const { length } = short.prompt_token_ids;
  expect(long.prompt_token_ids.slice(0, length)).toEqual(short.prompt_token_ids);
  return long.prompt_token_ids.slice(length).reduce((sum, id, i) => sum + long.prompt_logprobs[length + i]![id]!.logprob, 0);
}

interface Choice {
  readonly text: string;
  readonly prompt_token_ids: readonly number[];
  readonly prompt_logprobs: readonly (Readonly<Record<number, { readonly logprob: number }>> | null)[];
}

async function complete(url: string, body: object): Promise<readonly [Choice]> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${url}/completions`, { method: 'POST', headers, body: JSON.stringify(body) });
  expect(response.status).toBe(200);
  return ((await response.json()) as { choices: [Choice] }).choices;
}

interface LmEvalTask<Argument, Response> {
  readonly metrics: Readonly<Record<string, unknown>>;
  readonly rows: readonly { readonly arguments: readonly [Argument, ...Argument[]]; readonly responses: readonly (readonly [Response])[] }[];
}

interface LmEvalRun {
  readonly version: string;
  readonly generated: LmEvalTask<readonly [prompt: string], string>;
  readonly chatted: LmEvalTask<unknown, string>;
  readonly chosen: LmEvalTask<readonly [context: string, choice: string], readonly [logLikelihood: number, isGreedy: boolean]>;
  readonly chosen_by_text: LmEvalRun['chosen'];
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

  it('litellm completes, chats and streams, as OpenAI’s API and as vLLM', async () => {
    interface Run {
      readonly version: string;
      readonly completion: string;
      readonly chats: Readonly<
        Record<string, { readonly text: string; readonly streamed: string; readonly tokens: number; readonly chunks: number }>
      >;
      readonly unknown_model: string;
    }
    const [{ url, model }, chat] = [await servedModel(), await servedModel('chat')];
    const run = await runPeer<Run>('clients', 'litellm_client', [url, model, chat.url], TIME);
    expect(run.completion).toBe(await greedy(url, model, `Question: ${QUESTION}\n`));
    expect(Object.keys(run.chats)).toEqual(['openai', 'hosted_vllm']);
    for (const { text, streamed, tokens, chunks } of Object.values(run.chats)) {
      expect(text).toMatch(/\S/);
      expect(streamed).toBe(text);
      expect(chunks).toBeGreaterThan(tokens / 2);
    }
    expect(run.unknown_model).toBe('NotFoundError');
    resultLine('litellm', run.version, 'vf-serve policy: completions, chat, streams, errors; providers openai and hosted_vllm', 'as asked directly');
  });

  it('lm-eval generates, chats and chooses by the log-likelihoods that the server gives', async () => {
    const [{ url, model }, chat] = [await servedModel(), await servedModel('chat')];
    const run = await runPeer<LmEvalRun>('clients', 'lm_eval_tasks', [url, model, NANO, chat.url], TIME);
    expect(run.generated.rows).toHaveLength(6);
    for (const {
      arguments: [[prompt]],
      responses,
    } of run.generated.rows)
      expect(responses).toEqual([[await greedy(url, model, prompt)]]);
    expect(run.chatted.rows).toHaveLength(6);
    for (const { responses } of run.chatted.rows) expect(responses[0]?.[0]).toMatch(/\S/);
    let furthest = 0;
    for (const { arguments: choices, responses } of run.chosen.rows) {
      for (const [i, [context, choice]] of choices.entries()) {
        const [[logLikelihood]] = responses[i]!;
        furthest = Math.max(furthest, Math.abs(logLikelihood - (await logLikelihoodOf(url, model, context, choice))));
      }
      expect(responses.map(([[, isGreedy]]) => isGreedy)).toEqual([true, false, false]);
    }
    expect(furthest).toBeLessThan(1e-4);
    expect(run.chosen.metrics['acc,none']).toBe(1);
    expect(run.chosen_by_text.rows.map(({ responses }) => responses)).toEqual(run.chosen.rows.map(({ responses }) => responses));
    const what = 'vf-serve policy: generate_until, chat, multiple_choice by echoed log-probs';
    resultLine('lm-eval', run.version, what, `18 log-likelihoods, largest difference ${Number(furthest.toPrecision(2))}`);
  });

  it('a client that asks as upstream’s batch_search does reads the passages of vf-serve retrieve', async () => {
    interface Run {
      readonly version: string;
      readonly passages: readonly (readonly (readonly [title: string, text: string])[])[];
      readonly scores: readonly (readonly number[])[];
    }
    const { version, passages, scores } = await runPeer<Run>('clients', 'search_r1', [server.url, JSON.stringify(QUERIES)], TIME);
    expect(passages.map((found) => found[0])).toEqual([
      ['Kinzer', 'The mayor of Kinzer is Purorka.'],
      ['Kinzer', 'The river of Kinzer is Zumardle.'],
    ]);
    expect([passages, scores].map((each) => each.map(({ length }) => length))).toEqual([
      [3, 3],
      [3, 3],
    ]);
    for (const each of scores) expect(each).toEqual(each.toSorted((a, b) => b - a));
    resultLine('Search-R1', `request of a14dc3a4, requests ${version}`, 'vf-serve retrieve: batch_search of two queries', 'right passages first');
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

describePeer('verl-search', { quick: false }, () => {
  it('verl’s perform_single_search_batch reads the passages of vf-serve retrieve', async () => {
    await using server = await serveCommand(['retrieve', '--corpus', 'fact-world']);
    interface Run {
      readonly version: string;
      readonly text: string;
      readonly metadata: { readonly status: string; readonly total_results: number };
    }
    const { version, text, metadata } = await runPeer<Run>('verl-search', 'search', [server.url, JSON.stringify(QUERIES)], TIME);
    expect(metadata).toMatchObject({ status: 'success', total_results: 6 });
    expect(text.split('\n---\n').map((each) => each.split('\n\n')[0])).toEqual([
      'Doc 1 (Title: Kinzer)\nThe mayor of Kinzer is Purorka.',
      'Doc 1 (Title: Kinzer)\nThe river of Kinzer is Zumardle.',
    ]);
    resultLine('verl search client', version, 'vf-serve retrieve: perform_single_search_batch of two queries', 'right passages first');
  });
});
