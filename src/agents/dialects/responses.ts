/** OpenAI's Responses. */
import type { AgentRequest, AgentTurn } from '../agent-request.ts';
import type { AgentRefusal } from '../agent-refusal.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { type AnswerHead, type Dialect, named, openaiRefusal, type StreamEvent } from './dialect.ts';
import { type WrittenLogProb, writtenLogProbs } from './log-probs.ts';
import { itemId, readResponsesRequest } from './responses-request.ts';

type Item = Readonly<Record<string, unknown>> & { readonly id: string; readonly type: 'reasoning' | 'message' | 'function_call' };

export const responsesDialect: Dialect = {
  name: 'responses',
  read: (body, items) => readResponsesRequest(body, items),
  answer: (head, request, [turn]) => response(head, request, { turn: turn! }),
  opening: (head, request) => {
    const begun = response(head, request, {});
    return numbered(0, [named('response.created', { response: begun }), named('response.in_progress', { response: begun })]);
  },
  events: (head, request, [turn]) => {
    const whole = response(head, request, { turn: turn! });
    return numbered(2, [...whole.output.flatMap(itemEvents), named(`response.${whole.status}`, { response: whole })]);
  },
  keepAlive: ': keep-alive\n\n',
  refusal: openaiRefusal,
  // Some clients read the one, some the other.
  failure: (head, request, refusal) => {
    const { message, param } = refusal;
    const failed = response(head, request, { refusal });
    return numbered(2, [named('error', { code: failed.error!.code, message, param }), named('response.failed', { response: failed })]);
  },
};

/** The items of an answer, which later requests may name by id. */
function outputItems({ id }: AnswerHead, request: AgentRequest, turn: AgentTurn): readonly Item[] {
  const { content, reasoning, toolCalls, finish } = turn;
  const status = finish === 'length' ? 'incomplete' : 'completed';
  const part = { type: 'output_text', text: content, annotations: [], logprobs: writtenLogProbs(request, turn) ?? [] };
  return [
    ...(reasoning === undefined ? [] : [{ id: itemId('rs', id), type: 'reasoning' as const, summary: [{ type: 'summary_text', text: reasoning }] }]),
    // An answer has at least one item.
    ...(content === '' && toolCalls.length > 0
      ? []
      : [{ id: itemId('msg', id), type: 'message' as const, status, role: 'assistant', content: [part] }]),
    ...toolCalls.map(({ id: callId, name, arguments: args }, i) => ({
      id: itemId('fc', id, i),
      type: 'function_call' as const,
      status,
      call_id: callId,
      name,
      ...request.namespaced?.get(name),
      arguments: args,
    })),
  ];
}

interface Outcome {
  readonly turn?: AgentTurn;
  readonly refusal?: AgentRefusal;
}

/** Without an outcome: of an answer that is being written. */
function response(head: AnswerHead, request: AgentRequest, { turn, refusal }: Outcome) {
  const { tools, repeated = {} } = request;
  const isCut = turn?.finish === 'length';
  return {
    id: `resp_${head.id}`,
    object: 'response',
    created_at: head.created,
    status: refusal !== undefined ? 'failed' : turn === undefined ? 'in_progress' : isCut ? 'incomplete' : 'completed',
    background: false,
    error: refusal === undefined ? null : { code: refusal.code ?? 'server_error', message: refusal.message },
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    model: head.model,
    output: turn === undefined ? [] : outputItems(head, request, turn),
    tools: tools.map((tool) => ({ type: 'function', ...tool, strict: false })),
    usage: turn === undefined ? null : responsesUsage(turn),
    ...DEFAULTS,
    ...repeated,
    text: { ...DEFAULTS.text, ...fieldsOf(repeated['text']) },
  };
}

/** What an answer says of keys that its request leaves out. */
const DEFAULTS = {
  instructions: null,
  previous_response_id: null,
  store: true,
  metadata: {},
  user: null,
  truncation: 'disabled',
  reasoning: { effort: null, summary: null },
  text: { format: { type: 'text' } },
  temperature: 1,
  top_p: 1,
  max_output_tokens: null,
  tool_choice: 'auto',
  parallel_tool_calls: true,
};

function responsesUsage({ usage: { promptTokens, completionTokens, cachedTokens }, reasoningTokens = 0 }: AgentTurn): object {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens ?? 0 },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
  };
}

function itemEvents(item: Item, index: number): readonly StreamEvent[] {
  const at = { item_id: item.id, output_index: index };
  const [added, between] =
    item.type === 'reasoning' ? thoughtParts(item, at) : item.type === 'message' ? messageParts(item, at) : callParts(item, at);
  return [
    named('response.output_item.added', { output_index: index, item: added }),
    ...between,
    named('response.output_item.done', { output_index: index, item }),
  ];
}

type ItemParts = readonly [added: object, between: readonly StreamEvent[]];

function thoughtParts(item: Item, at: object): ItemParts {
  const [part] = item['summary'] as readonly [{ readonly type: string; readonly text: string }];
  const place = { ...at, summary_index: 0 };
  return [
    { ...item, summary: [] },
    [
      named('response.reasoning_summary_part.added', { ...place, part: { ...part, text: '' } }),
      named('response.reasoning_summary_text.delta', { ...place, delta: part.text }),
      named('response.reasoning_summary_text.done', { ...place, text: part.text }),
      named('response.reasoning_summary_part.done', { ...place, part }),
    ],
  ];
}

function messageParts(item: Item, at: object): ItemParts {
  const [part] = item['content'] as readonly [{ readonly text: string; readonly logprobs: readonly WrittenLogProb[] }];
  const { text, logprobs } = part;
  const place = { ...at, content_index: 0 };
  return [
    { ...item, status: 'in_progress', content: [] },
    [
      named('response.content_part.added', { ...place, part: { ...part, text: '', logprobs: [] } }),
      ...(text === '' ? [] : [named('response.output_text.delta', { ...place, delta: text, logprobs })]),
      named('response.output_text.done', { ...place, text, logprobs }),
      named('response.content_part.done', { ...place, part }),
    ],
  ];
}

function callParts(item: Item, at: object): ItemParts {
  const { name, arguments: args } = item;
  return [
    { ...item, status: 'in_progress', arguments: '' },
    [
      named('response.function_call_arguments.delta', { ...at, delta: args }),
      named('response.function_call_arguments.done', { ...at, name, arguments: args }),
    ],
  ];
}

function numbered(from: number, events: readonly StreamEvent[]): readonly StreamEvent[] {
  return events.map(({ data, ...rest }, i) => ({ ...rest, data: { ...(data as object), sequence_number: from + i } }));
}
