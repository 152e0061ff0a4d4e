/**
 * System messages behind the beginning of a conversation, which some agents send (Claude Code, Codex) and some chat templates do not take. Such a template gets them another way:
 * those at the beginning as one, and each later one in tags, as a part of the user's message next to it, so that it stays in its place behind what the policy has read. vLLM's
 * own Messages API moves them into the first one, which would change what the policy has read.
 */
import type { Message, MessageContent } from '../core/message.ts';
import { isRefusal } from './tokenizer-source.ts';

/** Claude Code explains these tags to its model. */
const TAG = 'system-reminder';

/** A conversation, or its parts before and behind a turn of the policy. */
export interface RenderedParts {
  readonly history: readonly Message[];
  /** What is rendered. */
  readonly next: readonly Message[];
}

/** Renders the messages as they are, or, if the template refuses them so, without later system messages. */
export async function withLaterSystem<T>({ history, next }: RenderedParts, render: (parts: RenderedParts) => Promise<T>): Promise<T> {
  try {
    return await render({ history, next });
  } catch (error) {
    const parts = { history: withoutLaterSystem(history), next: withoutLaterSystem(next, history.length === 0) };
    if (!isRefusal(error) || (parts.history === history && parts.next === next)) throw error;
    return render(parts);
  }
}

/**
 * The list itself if there is nothing to change.
 * @param isBeginning the list begins a conversation
 */
function withoutLaterSystem(messages: readonly Message[], isBeginning = true): readonly Message[] {
  const first = isBeginning && messages[0]?.role === 'system' ? 1 : 0;
  if (!messages.slice(first).some(({ role }) => role === 'system')) return messages;
  const kept = messages.slice(0, first);
  let isOpening = isBeginning;
  let isReminder = false;
  for (const message of messages.slice(first)) {
    const { role, content } = message;
    const last = kept.at(-1);
    isOpening &&= role === 'system';
    const isLater = role === 'system' && !isOpening;
    const joins = isOpening ? last : last?.role === 'user' && (isLater || (isReminder && role === 'user')) ? last : undefined;
    const text = isLater ? [`<${TAG}>\n`, content, `\n</${TAG}>`] : [content];
    if (joins !== undefined) kept[kept.length - 1] = { ...joins, content: joined([joins.content, '\n\n', ...text]) };
    else kept.push(isLater ? { role: 'user', content: joined(text) } : message);
    isReminder = isLater;
  }
  return kept;
}

function joined(contents: readonly MessageContent[]): MessageContent {
  if (contents.every((content) => typeof content === 'string')) return contents.join('');
  return contents.flatMap((content) => (typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content));
}
