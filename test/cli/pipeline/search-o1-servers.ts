/** A chat API and a search server for Search-o1's pipeline: a query, then a refinement, then a final answer to every question. */
import { type Loopback, loopback, readText, sendJson } from '../../transport/loopback.ts';

export interface SearchO1Servers extends Loopback {
  /** Prompts that were answered, in order. */
  readonly asked: readonly string[];
}

export interface SearchO1Options {
  /** Called before each answer: it may wait, or give the status of a refusal. @default answers */
  readonly hold?: (prompt: string) => Promise<unknown>;
  /** Called before each search. @default searches */
  readonly holdSearch?: () => Promise<unknown>;
}

export async function searchO1Servers({ hold = async () => {}, holdSearch = async () => {} }: SearchO1Options = {}): Promise<SearchO1Servers> {
  const asked: string[] = [];
  const server = await loopback(async (request, response) => {
    const body = JSON.parse(await readText(request)) as { query_list: string[]; messages: { content: string }[] };
    if (request.url === '/search') {
      await holdSearch();
      return sendJson(response, 200, { ret_psg: body.query_list.map((query) => [`about ${query}`]) });
    }
    const prompt = body.messages[0]!.content;
    const status = await hold(prompt);
    if (typeof status === 'number') return sendJson(response, status, { error: { message: 'no' } });
    asked.push(prompt);
    sendJson(response, 200, {
      choices: [{ message: { content: reply(prompt) }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: 1 },
    });
  });
  return { ...server, asked };
}

function reply(prompt: string): string {
  if (prompt.endsWith('<|end_search_result|>')) return '\\boxed{Bram Stoker}';
  if (prompt.includes('**Task Instruction:**')) return '**Final Information**\n\nfound it';
  return '<|begin_search_query|>Dracula<|end_search_query|>';
}

/** Settings for these servers and all questions of the sample. */
export const settingsFor = (url: string): readonly string[] => [
  `generation.base_url=${url}/v1`,
  `retriever.retriever_url=${url}`,
  'benchmark.benchmark.limit=-1',
  'generation.retries=0',
];

export const flagsFor = (url: string): readonly string[] => settingsFor(url).flatMap((each) => ['--set', each]);
