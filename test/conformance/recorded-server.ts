/** A server on loopback that answers as a recording says. */
import { fieldsOf } from '../../src/schemas/is-object.ts';
import { loopback, type Loopback, readText, sendJson } from '../transport/loopback.ts';
import type { Answer, Condition, Play } from './recording.ts';

export interface Body extends Readonly<Record<string, unknown>> {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
}

export interface RecordedServer extends Loopback {
  /** All requests, refused ones included. */
  readonly bodies: readonly Body[];
}

export async function recordedServer({ tools, refusals = [], answers }: Play): Promise<RecordedServer> {
  const bodies: Body[] = [];
  let accepted = 0;
  const server = await loopback(async (request, response) => {
    const body = JSON.parse(await readText(request)) as Body;
    bodies.push(body);
    const refusal = refusals.find((each) => holds(each.if, body));
    const isWithoutTools = tools !== undefined && body['tools'] === undefined;
    const answer = refusal ?? answers[isWithoutTools ? answers.length - 1 : Math.min(accepted++, answers.length - 1)]!;
    const { status = 200, headers = {} } = answer;
    const sent = answer.body ?? completion(answer, body);
    if (typeof sent === 'string') response.writeHead(status, headers).end(sent);
    else if (body['stream'] === true && status === 200 && Array.isArray(fieldsOf(sent)['choices'])) response.end(streamOf(fieldsOf(sent)));
    else sendJson(response, status, sent, headers);
  });
  return Object.assign(server, { bodies });
}

function completion({ choice = {}, usage }: Answer, { messages }: Body) {
  const promptTokens = 40 * messages.length;
  const counts = usage ?? { prompt_tokens: promptTokens, completion_tokens: 5, total_tokens: promptTokens + 5 };
  return { id: 'x', object: 'chat.completion', created: 0, model: 'm', choices: [{ index: 0, ...choice }], usage: counts };
}

/** The completion as server-sent events: texts in two pieces, the end and the token counts in chunks of their own. */
function streamOf({ choices, usage, ...fields }: Readonly<Record<string, unknown>>): string {
  const { message, ...end } = fieldsOf((choices as unknown[])[0]);
  const { role, tool_calls: calls, ...texts } = fieldsOf(message);
  const pieces = Object.entries(texts).flatMap(([name, value]) => {
    if (typeof value !== 'string') return [{ [name]: value }];
    const half = Math.floor(value.length / 2);
    return [{ [name]: value.slice(0, half) }, { [name]: value.slice(half) }];
  });
  const called = Array.isArray(calls) ? calls.map((call, index) => ({ tool_calls: [{ ...fieldsOf(call), index }] })) : [];
  const chunks = [
    ...[{ role, content: '' }, ...pieces, ...called].map((delta) => ({ ...fields, choices: [{ index: 0, delta, finish_reason: null }] })),
    { ...fields, choices: [{ ...end, delta: {} }] },
    { ...fields, choices: [], usage },
  ];
  return [...chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`), 'data: [DONE]\n\n'].join('');
}

function holds(condition: Condition, body: Body): boolean {
  const { has = [], lacks = {}, callerLacks, callLacks, assistantHas, emptyAssistant } = condition;
  const turns = body.messages.filter(({ role }) => role === 'assistant');
  const callers = turns.filter((message) => Array.isArray(message['tool_calls']));
  const calls = callers.flatMap((message) => message['tool_calls'] as readonly Readonly<Record<string, unknown>>[]);
  return (
    has.every((name) => name in body) &&
    Object.entries(lacks).every(([name, value]) => body[name] !== value) &&
    (callerLacks === undefined || callers.some((message) => !(callerLacks in message))) &&
    (callLacks === undefined || calls.some((call) => !(callLacks in call))) &&
    (assistantHas === undefined || turns.some((message) => assistantHas in message)) &&
    (emptyAssistant === undefined || turns.some(({ content, tool_calls: own }) => (content ?? '') === '' && own === undefined))
  );
}
