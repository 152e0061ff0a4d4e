/** Chat Completions. */
import type { AgentRequest, AgentTurn } from '../agent-request.ts';
import { readChatRequest } from './chat-request.ts';
import { type AnswerHead, type Dialect, openaiRefusal, type StreamEvent } from './dialect.ts';
import { writtenLogProbs } from './log-probs.ts';

export const chatDialect: Dialect = {
  name: 'chat',
  read: (body) => readChatRequest(body),
  answer: (head, request, turns) => ({
    id: `chatcmpl-${head.id}`,
    object: 'chat.completion',
    created: head.created,
    model: head.model,
    choices: turns.map((turn, index) => ({
      index,
      message: wholeMessage(turn),
      logprobs: choiceLogProbs(request, turn),
      finish_reason: finishReason(turn),
    })),
    usage: chatUsage(turns),
  }),
  opening: (head, { settings: { n = 1 } }) =>
    Array.from({ length: n }, (_, index) => chunk(head, [{ index, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }])),
  events: (head, request, turns) => [
    ...turns.flatMap((turn, index) => turnChunks({ head, request, turn, index })),
    ...(request.countsUsage ? [chunk(head, [], { usage: chatUsage(turns) })] : []),
    { data: '[DONE]' },
  ],
  keepAlive: ': keep-alive\n\n',
  refusal: openaiRefusal,
  failure: (_, __, refusal) => [{ data: openaiRefusal(refusal) }],
};

function wholeMessage({ content, reasoning, toolCalls }: AgentTurn): object {
  return {
    role: 'assistant',
    content: content === '' && toolCalls.length > 0 ? null : content,
    refusal: null,
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length === 0
      ? {}
      : { tool_calls: toolCalls.map(({ id, name, arguments: args }) => ({ id, type: 'function', function: { name, arguments: args } })) }),
  };
}

function choiceLogProbs(request: AgentRequest, turn: AgentTurn): object | null {
  const content = writtenLogProbs(request, turn);
  return content === null ? null : { content, refusal: null };
}

interface TurnAt {
  readonly head: AnswerHead;
  readonly request: AgentRequest;
  readonly turn: AgentTurn;
  readonly index: number;
}

function turnChunks({ head, request, turn, index }: TurnAt): readonly StreamEvent[] {
  const part = (delta: object, finish: string | null = null, logprobs: object | null = null) =>
    chunk(head, [{ index, delta, logprobs, finish_reason: finish }]);
  const logProbs = choiceLogProbs(request, turn);
  return [
    ...(turn.reasoning === undefined ? [] : [part({ reasoning_content: turn.reasoning })]),
    ...(turn.content === '' && logProbs === null ? [] : [part({ content: turn.content }, null, logProbs)]),
    ...turn.toolCalls.map(({ id, name, arguments: args }, i) =>
      part({ tool_calls: [{ index: i, id, type: 'function', function: { name, arguments: args } }] }),
    ),
    part({}, finishReason(turn)),
  ];
}

function chunk({ id, created, model }: AnswerHead, choices: readonly object[], further: object = {}): StreamEvent {
  return { data: { id: `chatcmpl-${id}`, object: 'chat.completion.chunk', created, model, choices, ...further } };
}

function finishReason({ finish, toolCalls }: AgentTurn): string {
  return finish === 'length' ? 'length' : toolCalls.length > 0 ? 'tool_calls' : 'stop';
}

function chatUsage(turns: readonly AgentTurn[]): object {
  const { promptTokens, cachedTokens } = turns[0]!.usage;
  const completion = turns.reduce((sum, { usage }) => sum + usage.completionTokens, 0);
  const cached = cachedTokens === null ? {} : { prompt_tokens_details: { cached_tokens: cachedTokens } };
  const counted = turns.flatMap(({ reasoningTokens = null }) => (reasoningTokens === null ? [] : [reasoningTokens]));
  const reasoning =
    counted.length < turns.length ? {} : { completion_tokens_details: { reasoning_tokens: counted.reduce((sum, tokens) => sum + tokens, 0) } };
  return { prompt_tokens: promptTokens, completion_tokens: completion, total_tokens: promptTokens + completion, ...cached, ...reasoning };
}
