/** Why one list of messages left another, in one line for people. Which lists are compared is not decided here. */
import { contentImages, contentText, type Message } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';

/**
 * - `tools`: the request offers other tools
 * - `system`: its first message is another system prompt, as a sub-agent's
 * - `history`: a message that was said before is another one, or is gone
 * - `retry`: the same list once more, although the conversation has gone on after its answer
 * - `sample`: one of several answers to the same list
 * - `side`: one question without tools, next to conversations that have some, such as for a title
 */
export type ForkKind = 'tools' | 'system' | 'history' | 'retry' | 'sample' | 'side';

export interface Fork {
  readonly kind: ForkKind;
  /** Number of messages in common. */
  readonly at: number;
  /** What differs, in one line. */
  readonly difference: string;
}

export const SIDE: Fork = { kind: 'side', at: 0, difference: 'one question was asked without tools, such as for a title' };

/** @param isUsed the conversation had gone on after an answer to the same list */
export function answerFork(at: number, isUsed: boolean): Fork {
  if (isUsed) return { kind: 'retry', at, difference: 'the same messages were sent again after their answer was used' };
  return { kind: 'sample', at, difference: 'several answers to the same messages were asked for' };
}

export function toolsFork(was: readonly ToolSpec[], is: readonly ToolSpec[]): Fork {
  return { kind: 'tools', at: 0, difference: toolsDifference(was, is) };
}

/** @param is null where the list ends before this message */
export function messageFork(at: number, was: Message, is: Message | null): Fork {
  const kind = at === 0 && (is?.role === 'system' || was.role === 'system') ? 'system' : 'history';
  return { kind, at, difference: is === null ? `message ${at} (${was.role}) was there and is gone` : messageDifference(`message ${at}`, was, is) };
}

function toolsDifference(was: readonly ToolSpec[], is: readonly ToolSpec[]): string {
  if (is.length === 0) return 'no tools are offered';
  if (was.length === 0) return `tools are offered where there were none: ${namesOf(is).join(', ')}`;
  const [before, now] = [new Set(namesOf(was)), new Set(namesOf(is))];
  const [fresh, gone] = [[...now].filter((name) => !before.has(name)), [...before].filter((name) => !now.has(name))];
  const changes = [...(fresh.length === 0 ? [] : [`with ${fresh.join(', ')}`]), ...(gone.length === 0 ? [] : [`without ${gone.join(', ')}`])];
  if (changes.length > 0) return `other tools are offered: ${changes.join(', ')}`;
  const isReordered = namesOf(is).join('\n') !== namesOf(was).join('\n');
  return isReordered ? 'the same tools are offered in another order' : 'a tool has another description or other parameters';
}

function namesOf(tools: readonly ToolSpec[]): readonly string[] {
  return tools.map(({ name }) => name);
}

function messageDifference(place: string, before: Message, now: Message): string {
  if (before.role !== now.role) return `${place} was of the role ${before.role} and is of the role ${now.role}`;
  const [was, is] = [textOf(before), textOf(now)];
  if (was === is) return `${place} (${now.role}) ${otherParts(before, now)}`;
  let from = 0;
  while (from < Math.min(was.length, is.length) && was[from] === is[from]) from++;
  return `${place} (${now.role}) was ${shownFrom(was, from)} and is ${shownFrom(is, from)} from character ${from} on`;
}

/** Without the blanks that do not count. */
function textOf({ role, content }: Message): string {
  return role === 'assistant' ? contentText(content).trim() : contentText(content);
}

function otherParts(was: Message, is: Message): string {
  const images = ({ content }: Message) => contentImages(content).map(({ sha256 }) => sha256);
  if (was.toolCallId !== is.toolCallId) return 'answers another call';
  return images(was).join() === images(is).join() ? 'has other calls' : 'has other images';
}

/** Characters that are shown of each text, and most with the words that they lie in. */
const SHOWN = 60;
const LONGEST = 300;

/** Whole words alone: of a secret that is cut, redaction would not know the rest. A word that is too long is left out. */
function shownFrom(text: string, from: number): string {
  const [earliest, latest] = [Math.max(0, from - LONGEST), Math.min(text.length, from + LONGEST)];
  let start = from;
  while (start > earliest && !isBlank(text[start - 1]!)) start--;
  if (start > 0 && !isBlank(text[start - 1]!)) return 'another word';
  let end = Math.min(text.length, from + SHOWN);
  while (end < latest && !isBlank(text[end]!)) end++;
  while (end > start && end < text.length && !isBlank(text[end]!)) end--;
  return end === start && start < text.length ? 'another word' : JSON.stringify(text.slice(start, end));
}

function isBlank(char: string): boolean {
  return char.trim() === '';
}
