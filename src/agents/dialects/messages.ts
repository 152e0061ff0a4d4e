/** Anthropic's Messages. */
import type { AgentTurn } from '../agent-request.ts';
import { argumentsOrNull } from '../../schemas/arguments-or-null.ts';
import { isObject } from '../../schemas/is-object.ts';
import { type Dialect, named, type StreamEvent } from './dialect.ts';
import { readMessagesRequest } from './messages-request.ts';
import type { AgentRefusal } from '../agent-refusal.ts';

/** Thoughts have a signature, which clients send back. It says nothing here. */
const SIGNATURE = 'dmYtc2VhcmNo';

export const messagesDialect: Dialect = {
  name: 'messages',
  read: (body) => readMessagesRequest(body),
  answer: ({ id, model }, _, [turn]) => ({
    id: `msg_${id}`,
    type: 'message',
    role: 'assistant',
    model,
    content: blocks(turn!),
    stop_reason: stopReason(turn!),
    stop_sequence: turn!.stopSequence ?? null,
    usage: writtenUsage(turn!),
  }),
  opening: ({ id, model }, _, turns) => {
    // A stream that opens early tells the counts at its end.
    const usage = turns === null ? { input_tokens: 0, output_tokens: 0 } : writtenUsage(turns[0]!);
    const message = { id: `msg_${id}`, type: 'message', role: 'assistant', model, content: [], stop_reason: null, stop_sequence: null, usage };
    return [named('message_start', { message }), named('ping', {})];
  },
  events: (_, __, [turn]) => [
    ...blocks(turn!).flatMap((block, index) => blockEvents(block, index)),
    named('message_delta', {
      delta: { stop_reason: stopReason(turn!), stop_sequence: turn!.stopSequence ?? null },
      usage: writtenUsage(turn!),
    }),
    named('message_stop', {}),
  ],
  keepAlive: 'event: ping\ndata: {"type": "ping"}\n\n',
  refusal: anthropicRefusal,
  failure: (_, __, refusal) => [{ event: 'error', data: anthropicRefusal(refusal) }],
};

type Block =
  | { readonly type: 'thinking'; readonly thinking: string; readonly signature: string }
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'tool_use'; readonly id: string; readonly name: string; readonly input: Readonly<Record<string, unknown>> };

/** The API has arguments as objects only: those that are no object come as `{}`, and as they were written over a stream. */
function blocks({ content, reasoning, toolCalls }: AgentTurn): readonly (Block & { readonly written?: string })[] {
  return [
    ...(reasoning === undefined ? [] : [{ type: 'thinking' as const, thinking: reasoning, signature: SIGNATURE }]),
    ...(content === '' ? [] : [{ type: 'text' as const, text: content }]),
    ...toolCalls.map(({ id, name, arguments: written }) => {
      const input = argumentsOrNull(written);
      return Object.defineProperty({ type: 'tool_use' as const, id, name, input: isObject(input) ? input : {} }, 'written', { value: written });
    }),
  ];
}

function blockEvents(block: Block & { readonly written?: string }, index: number): readonly StreamEvent[] {
  const delta = (part: object) => named('content_block_delta', { index, delta: part });
  const [start, deltas] =
    block.type === 'thinking'
      ? [
          { ...block, thinking: '', signature: '' },
          [delta({ type: 'thinking_delta', thinking: block.thinking }), delta({ type: 'signature_delta', signature: block.signature })],
        ]
      : block.type === 'text'
        ? [{ ...block, text: '' }, [delta({ type: 'text_delta', text: block.text })]]
        : [{ ...block, input: {} }, [delta({ type: 'input_json_delta', partial_json: block.written ?? '{}' })]];
  return [named('content_block_start', { index, content_block: start }), ...deltas, named('content_block_stop', { index })];
}

function stopReason({ finish, toolCalls, stopSequence }: AgentTurn): string {
  if (finish === 'length') return 'max_tokens';
  return toolCalls.length > 0 ? 'tool_use' : stopSequence === undefined ? 'end_turn' : 'stop_sequence';
}

/** Tokens of the prompt that came from a cache are not in `input_tokens` there. */
function writtenUsage({ usage: { promptTokens, completionTokens, cachedTokens }, reasoningTokens }: AgentTurn): object {
  const cached = cachedTokens === null ? {} : { cache_read_input_tokens: cachedTokens };
  const thoughts = reasoningTokens === undefined ? {} : { output_tokens_details: { thinking_tokens: reasoningTokens } };
  return { input_tokens: promptTokens - (cachedTokens ?? 0), output_tokens: completionTokens, ...cached, ...thoughts };
}

/** Clients shorten the conversation at these words. */
const TOO_LONG = 'prompt is too long: ';

function anthropicRefusal({ status, message, code }: AgentRefusal): object {
  const type = TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  return { type: 'error', error: { type, message: code === 'context_length_exceeded' ? TOO_LONG + message : message } };
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
};
