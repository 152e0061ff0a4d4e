/** Loopback servers for Search-o1's pipeline: a chat API that answers each question's prompts in order, and passages by query. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { readText, sendJson } from '../../transport/loopback.ts';

export interface Script {
  readonly questions: readonly { readonly question: string; readonly golden_answers: readonly string[] }[];
  /** By number of the question. */
  readonly answers: Readonly<Record<string, readonly string[]>>;
  readonly passages: Readonly<Record<string, readonly string[]>>;
}

/** Give every run a handler of its own: it remembers what it has answered. */
export function scripted({ questions, answers, passages }: Script): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  const next = questions.map(() => 0);
  return async (request, response) => {
    const body = JSON.parse(await readText(request)) as { query_list: string[]; messages: { content: string }[] };
    if (request.url === '/search') return sendJson(response, 200, { ret_psg: body.query_list.map((query) => passages[query] ?? []) });
    const number = questions.findIndex(({ question }) => body.messages[0]!.content.includes(question));
    const content = answers[number]![next[number]!++] ?? 'out of script<|im_end|>';
    // The script spells the end of the turn that a real server leaves in the text.
    const finish = content.endsWith('<|im_end|>') ? 'stop' : 'length';
    sendJson(response, 200, { choices: [{ message: { content }, finish_reason: finish }], usage: { prompt_tokens: 1, completion_tokens: 1 } });
  };
}
