/**
 * The turns of a conversation by token ids: prompts and bridges as the model's chat template renders them, and what a sampled turn says. Sampled ids are never rendered
 * again. A transcript plays one line of turns, an agent's session a tree of them.
 */
import type { PolicyCapabilities, TokenLease, TokenSample } from '../clients/policy-client.ts';
import { untilAborted } from '../core/abort.ts';
import type { Message, RenderedTokens } from '../core/message.ts';
import { afterClosedThoughts } from '../core/text-outside-thoughts.ts';
import { textBeforeCalls, toolCallAttempts, type ToolCallAttempt, type ToolCallFormat, type ToolSpec } from '../core/tool-calls.ts';
import { assistantMessage } from './conversation-messages.ts';
import { endsWithToken } from './token-transcript.ts';

export interface ConversationOptions {
  /** Offered natively. */
  readonly tools: readonly ToolSpec[];
  /** Variables of the chat template. */
  readonly variables: Readonly<Record<string, unknown>>;
  readonly capabilities: PolicyCapabilities;
  /** Rewards read the thoughts of a turn. */
  readonly readsThoughts: boolean;
  readonly signal: AbortSignal;
}

/** A turn of the policy, as later renderings need it. */
export interface PlayedTurn {
  readonly message: Message;
  /** The policy sampled the token that ends it. */
  readonly isClosed: boolean;
}

/** What a sampled turn says. */
export interface ReadTurn extends PlayedTurn {
  readonly toolCalls: readonly ToolCallAttempt[];
  /** The turn for the record: its text without its calls, and its calls once, as over a chat API. */
  readonly recorded: Message;
}

type Opened = Required<RenderedTokens>;

/** The first prompt. */
export async function openConversation(lease: TokenLease, prompt: readonly Message[], options: ConversationOptions): Promise<Opened> {
  const { tools, variables, signal } = options;
  return opened(await untilAborted(lease.render(prompt, { format: 'chat', tools, variables }), signal), options);
}

/** What stands between a turn, which follows `history`, and the next one. */
export async function bridgeTo(
  lease: TokenLease,
  { history, turn, next }: { readonly history: readonly Message[]; readonly turn: PlayedTurn; readonly next: readonly Message[] },
  options: ConversationOptions,
): Promise<Opened> {
  const { tools, variables, signal } = options;
  return opened(await untilAborted(lease.renderNext(history, next, { tools, variables, isClosed: turn.isClosed }), signal), options);
}

/**
 * Reads the kept text of a sample. `index` counts the turns before it. `callId` names its calls; by default their ids count turns and calls. What stands before `callsFrom`
 * mentions calls at most.
 * @param text with what the template and the environment opened the turn with
 */
export function readTurn(
  text: string,
  {
    sample,
    isWhole,
    index,
    callId,
    callsFrom = 0,
  }: {
    readonly sample: TokenSample;
    readonly isWhole: boolean;
    readonly index: number;
    readonly callId?: (call: number) => string;
    readonly callsFrom?: number;
  },
  { tools, capabilities }: ConversationOptions,
): ReadTurn {
  const format = callFormat(tools, capabilities);
  const rest = text.slice(callsFrom);
  const attempts = format === null ? [] : toolCallAttempts(rest, format, index, tools);
  const toolCalls = callId === undefined ? attempts : attempts.map((attempt, i) => ({ ...attempt, id: callId(i) }));
  const message = assistantMessage(text, toolCalls);
  const shown = format === null ? rest : textBeforeCalls(rest, format);
  const recorded = { ...message, content: shown === rest ? text : (text.slice(0, callsFrom) + shown).trimEnd() };
  return { message, recorded, toolCalls, isClosed: isWhole && endsWithToken(sample) };
}

/** Null if calls are not parsed from the text of a turn. */
function callFormat(tools: readonly ToolSpec[], { toolCalls: format = null }: PolicyCapabilities): ToolCallFormat | null {
  return tools.length === 0 || format === 'structured' ? null : format;
}

function opened({ ids, images, opening = '' }: RenderedTokens, { readsThoughts }: ConversationOptions): Opened {
  return { ids, images, opening: shownOpening(opening, readsThoughts) };
}

/**
 * Thoughts that the template opened and closed, or only closed (`</think>`, DeepSeek V3.1 and GLM without thinking), are not part of a message, unless rewards read thoughts: a
 * model without thinking just answers.
 */
function shownOpening(opening: string, readsThoughts: boolean): string {
  const end = afterClosedThoughts(opening);
  return readsThoughts || end === 0 || opening.slice(end).trim() !== '' ? opening : '';
}
