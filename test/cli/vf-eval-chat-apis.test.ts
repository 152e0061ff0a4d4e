/** What chat APIs are known to answer, in the numbers of a whole evaluation: a server's habit is never a reward. */
import { describe, expect, it } from 'vitest';
import { loopback, readText, sendJson } from '../transport/loopback.ts';
import { EvalFolder } from './vf-eval-process.ts';

interface Turn {
  readonly content: string | null;
  readonly finish_reason?: string;
  readonly stop_reason?: string | null;
  readonly matched_stop?: string;
  /** Prompt tokens that the server counts. @default those of a growing prompt */
  readonly promptTokens?: number;
}

const ROWS = '{"id":"q1","question":"What is the capital of France?","golden_answers":["Paris"]}\n';
const CORPUS = '{"id":"1","contents":"\\"France\\"\\nFrance is a country. Its capital is Paris."}\n';

/** The only result of an evaluation of a server that answers with these turns, the last again and again, and the run's summary. */
async function evaluated(environment: string, turns: readonly Turn[], more: readonly string[] = []) {
  let asked = 0;
  await using server = await loopback(async (request, response) => {
    if (request.url!.endsWith('/models')) return sendJson(response, 200, { object: 'list', data: [{ id: 'm', object: 'model' }] });
    if (!request.url!.endsWith('/chat/completions')) return sendJson(response, 404, { error: { message: 'no such route' } });
    const { messages } = JSON.parse(await readText(request)) as { messages: unknown[] };
    const { content, promptTokens = 100 * messages.length, finish_reason = 'stop', ...stops } = turns[Math.min(asked++, turns.length - 1)]!;
    const choice = { index: 0, finish_reason, ...stops, message: { role: 'assistant', content } };
    return sendJson(response, 200, { choices: [choice], usage: { prompt_tokens: promptTokens, completion_tokens: 20 } });
  });
  using folder = new EvalFolder();
  folder.file('rows.jsonl', ROWS);
  folder.file('corpus.jsonl', CORPUS);
  const args = JSON.stringify({ dataset: 'rows.jsonl', corpus: 'corpus.jsonl' });
  const ended = await folder.run([environment, '-b', `${server.url}/v1`, '-m', 'm', '-n', '1', '-a', args, '--max-retries', '0', '--json', ...more]);
  const [result] = folder.results() as [Record<string, unknown> & { metrics: Record<string, number>; error: { message: string } | null }];
  return { ...ended, result, asked };
}

const QUERY = 'I need to search.\n\n<|begin_search_query|>capital of France';
const BOXED = { content: 'The page says Paris.\n\n\\boxed{Paris}' };

describe('vf-eval over a chat API', () => {
  it.each<[string, Partial<Turn>, number]>([
    ['says nothing of it, as OpenAI, Ollama and llama.cpp do (cases 30, 31)', {}, 1],
    ['says so in matched_stop, as SGLang does', { matched_stop: '<|end_search_query|>' }, 0],
    ['says so in stop_reason, as vLLM does', { stop_reason: '<|end_search_query|>' }, 0],
  ])('search-o1 searches where the server %s', async (_, said, guesses) => {
    const { result, stdout } = await evaluated('search-o1', [{ content: QUERY, ...said }, BOXED]);
    expect(result).toMatchObject({ reward: 1, error: null, metrics: { searches: 1 } });
    const summary = JSON.parse(stdout) as { guessed_stops?: number };
    expect(summary.guessed_stops ?? 0).toBe(guesses);
  });

  it('search-o1 never scores what a model invents after its query on a server that ignores stop (case 38)', async () => {
    const invented = `${QUERY}<|end_search_query|>\n\n<|begin_search_result|>Lyon<|end_search_result|>\n\n\\boxed{Lyon}`;
    const { result } = await evaluated('search-o1', [{ content: invented }, BOXED]);
    expect(result).toMatchObject({ reward: 1, error: null, metrics: { searches: 1 } });
  });

  it('search-r1 takes no mention of a tag in thoughts for a search (case 01)', async () => {
    const content = '<think> I could use <search> to look it up, but I know this. </think>\n<answer> Paris </answer>';
    const { result, asked } = await evaluated('search-r1', [{ content, stop_reason: null }, { content: '<answer> Rome </answer>' }]);
    expect(result).toMatchObject({ reward: 1, metrics: { searches: 0 } });
    expect(asked).toBe(1);
  });

  it.each(['abort', 'insufficient_system_resource', 'network_error', 'load'])('%s is a failure, never a reward of 0 (case 02)', async (reason) => {
    const { result, code } = await evaluated('search-r1', [
      { content: '<think> look it up </think>\n<search> capital of Fra', finish_reason: reason },
    ]);
    expect(result).toMatchObject({ reward: null, error: { message: expect.stringContaining(reason) } });
    expect(code).toBe(1);
  });

  it.each(['length', 'MAX_TOKENS', 'max_tokens', 'model_context_window_exceeded'])('%s is a text that was cut off (case 02)', async (reason) => {
    const { result } = await evaluated('search-r1', [{ content: '<think> I need to', finish_reason: reason }]);
    expect(result).toMatchObject({ error: null, is_truncated: true });
  });

  it('a server that drops the beginning of a long prompt fails the rollout and is named (case 14)', async () => {
    const { result } = await evaluated('search-r1', [
      { content: '<search> a </search>', promptTokens: 3900 },
      { content: '<answer> Rome </answer>', promptTokens: 2051 },
    ]);
    expect(result).toMatchObject({ reward: null, error: { message: expect.stringContaining('leaves out the beginning of long prompts') } });
  });
});
