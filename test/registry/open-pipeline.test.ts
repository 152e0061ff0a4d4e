import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { CancelledError } from '../../src/core/errors.ts';
import { NO_JOURNAL, openPipeline } from '../../src/registry/open-pipeline.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';

const SEARCH_O1 = join(import.meta.dirname, '../../examples/search_o1.yaml');
const folder = mkdtempSync(join(tmpdir(), 'open-pipeline-'));
afterAll(() => rmSync(folder, { recursive: true }));

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Questions begin with how many searches they need; each answer says all queries so far. */
const chat: Handler = async (request, response) => {
  const { messages } = JSON.parse(await readText(request)) as { messages: { content: string }[] };
  const prompt = messages[0]!.content;
  const needed = Number(/Question:\\n(\d)/.exec(prompt)![1]);
  const done = prompt.split('<|begin_search_result|>**Final').length - 1;
  const isRefinement = prompt.includes('**Task Instruction:**') && !prompt.endsWith('<|end_search_result|>');
  const last = /query (\d+) of (\d)/.exec(prompt.slice(prompt.lastIndexOf('Current Search Query'))) ?? [];
  const query = `<|begin_search_query|>query ${done} of ${needed}<|end_search_query|>`;
  const content = isRefinement ? `**Final Information**\n\nfound ${last[0] ?? ''}` : done < needed ? query : `\\boxed{${needed}}`;
  sendJson(response, 200, { choices: [{ message: { content }, finish_reason: 'stop' }], usage: { prompt_tokens: 1, completion_tokens: 1 } });
};

const search: Handler = async (request, response) => {
  const { query_list: queries } = JSON.parse(await readText(request)) as { query_list: string[] };
  sendJson(response, 200, { ret_psg: queries.map((query) => [`about ${query}`]) });
};

async function opened(url: string, more: readonly string[] = [], signal?: AbortSignal) {
  return openPipeline(SEARCH_O1, {
    set: [
      `generation.base_url=${url}/v1`,
      'generation.retries=0',
      `retriever.retriever_url=${url}`,
      'evaluation.save_path=null',
      'evaluation.metrics=[acc]',
      ...more,
    ],
    env: {},
    ...(signal && { signal }),
  });
}

const route =
  (answer: { readonly chat?: Handler; readonly search?: Handler } = {}): Handler =>
  (request, response) =>
    (request.url === '/search' ? (answer.search ?? search) : (answer.chat ?? chat))(request, response);

const benchmark = (questions: readonly string[]) =>
  new Map([['benchmark.get_data', { q_ls: questions, gt_ls: questions.map((question) => [question[0]!]) }]]);

describe('openPipeline', () => {
  const { signal } = new AbortController();
  const QUESTIONS = ['2 a', '0 b', '1 c', '3 d', '0 e', '2 f', '1 g'];

  it('gives each question of a batch what it gives the question alone, with many runs at once', async () => {
    await using server = await loopback(route());
    await using pipeline = await opened(server.url);
    const run = async (questions: readonly string[]) => (await pipeline.run({ journal: NO_JOURNAL, signal, given: benchmark(questions) })).variables;
    const [batch, ...alone] = await Promise.all([run(QUESTIONS), ...QUESTIONS.map((question) => run([question]))]);
    expect(batch['ans_ls']).toEqual(alone.map((each) => (each['ans_ls'] as string[])[0]));
    expect(batch['prompt_ls']).toEqual(alone.map((each) => (each['prompt_ls'] as string[])[0]));
    expect(batch['eval_res']).toMatchObject({ avg_acc: 1 });
  });

  it('does not read the benchmark where its questions are given', async () => {
    await using server = await loopback(route());
    await using pipeline = await opened(server.url, ['benchmark.benchmark.path=nowhere.jsonl']);
    const { variables } = await pipeline.run({ journal: NO_JOURNAL, signal, given: benchmark(['0 x']) });
    expect(variables['ans_ls']).toEqual(['\\boxed{0}<|im_end|>']);
    await expect(pipeline.run({ journal: NO_JOURNAL, signal })).rejects.toThrow('The benchmark nowhere.jsonl does not exist');
  });

  it.each<[string, Handler, RegExp]>([
    ['is torn', (_, response) => response.end('{"ret_psg": [["a"'), /expected JSON/],
    ['has too few lists', (_, response) => sendJson(response, 200, { ret_psg: [] }), /expected one list for each of 1 queries, got 0/],
    ['has no passages', (_, response) => sendJson(response, 200, { result: [[]] }), /expected \{"ret_psg": \[\[\.\.\.\], \.\.\.\]\}/],
    ['is an error', (_, response) => sendJson(response, 404, { detail: 'Not Found' }), /404 .*Not Found/],
  ])('ends with what the retriever said where its answer %s', async (_, answer, message) => {
    await using server = await loopback(route({ search: answer }));
    await using pipeline = await opened(server.url);
    await expect(pipeline.run({ journal: NO_JOURNAL, signal, given: benchmark(['1 x']) })).rejects.toThrow(message);
  });

  it('leaves out questions whose generation is torn, empty or withheld, and keeps the others', async () => {
    const broken: Handler = async (request, response) => {
      const text = await readText(request);
      if (text.includes('torn')) return response.end('{"choices": [');
      if (text.includes('empty')) return sendJson(response, 200, {});
      if (text.includes('withheld')) return sendJson(response, 200, { choices: [{ message: { content: 'x' }, finish_reason: 'content_filter' }] });
      sendJson(response, 200, { choices: [{ message: { content: '0 is it' }, finish_reason: 'stop' }] });
    };
    await using server = await loopback(route({ chat: broken }));
    await using pipeline = await opened(server.url);
    const { failed, variables } = await pipeline.run({
      journal: NO_JOURNAL,
      signal,
      given: benchmark(['0 torn', '0 fine', '0 empty', '0 withheld']),
    });
    expect(new Set(failed.keys())).toEqual(new Set([0, 2, 3]));
    expect(variables['ans_ls']).toEqual([null, '0 is it<|im_end|>', null, null]);
    expect(variables['eval_res']).toMatchObject({ acc: [null, 1, null, null], avg_acc: 1, failed: 3 });
  });

  it('stops at once when it is cancelled', async () => {
    const stop = new AbortController();
    await using server = await loopback(route({ chat: () => stop.abort(new CancelledError('Interrupted by the user')) }));
    await using pipeline = await opened(server.url);
    await expect(pipeline.run({ journal: NO_JOURNAL, signal: stop.signal, given: benchmark(['0 x', '0 y']) })).rejects.toBeInstanceOf(CancelledError);
  });

  it('refuses a retriever URL that is none', async () => {
    writeFileSync(join(folder, 'p.yaml'), 'servers: {benchmark: , retriever: }\npipeline: [benchmark.get_data, retriever.retriever_deploy_search]');
    await using pipeline = await openPipeline(join(folder, 'p.yaml'), { set: ['retriever.retriever_url="http://a b"'], env: {} });
    await expect(pipeline.run({ journal: NO_JOURNAL, signal, given: benchmark(['0 x']) })).rejects.toThrow(
      'The retriever URL "http://a b" is not a URL; write http://host:port',
    );
  });
});
