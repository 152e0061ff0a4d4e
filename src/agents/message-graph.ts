/**
 * The conversations of one rollout as a tree: what the agent said, what the policy answered, and where one list of messages left another. It knows no tokens: the same
 * conversations give the same tree, however their requests overlap.
 */
import { contentText, type Message } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import { Random } from '../core/random.ts';
import { type AnsweredTurn, isWrittenAs, messageKey, tells } from './message-key.ts';

/**
 * - `tools`: the request offers other tools
 * - `system`: its first message is another system prompt, as a sub-agent's
 * - `history`: a message that was said before is another one
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

interface NodeParts<T> {
  readonly parent: GraphNode<T> | null;
  /** The message that the agent wrote; null for a root and for a turn. */
  readonly message: Message | null;
  /** The policy's turn, from its request on; null for others. */
  readonly turn: T | null;
  /** What sets it apart from the other children of its parent. */
  readonly name: string;
  /** @default 0 */
  readonly ordinal?: number;
}

/** Bounded, however long the conversation is. */
function pathName(parent: { readonly path: string } | null, name: string): string {
  const random = Random.fromSeed(0).fork(parent?.path ?? '');
  return `${random.fork(`a${name}`).uint32().toString(36)}.${random.fork(`b${name}`).uint32().toString(36)}`;
}

/** A root, a message of the agent, or a turn of the policy. */
export class GraphNode<T> {
  readonly parent: GraphNode<T> | null;
  readonly message: Message | null;
  readonly turn: T | null;
  /** Number of messages from the root to here. */
  readonly depth: number;
  /** Of a turn: its number among the answers to its list, from 0. */
  readonly ordinal: number;
  /** Names the conversation up to here: the same messages have the same name, however they came about. */
  readonly path: string;
  readonly given = new Map<string, GraphNode<T>>();
  readonly turns: GraphNode<T>[] = [];

  constructor({ parent, message, turn, name, ordinal = 0 }: NodeParts<T>) {
    this.parent = parent;
    this.message = message;
    this.turn = turn;
    this.ordinal = ordinal;
    this.depth = parent === null ? 0 : parent.depth + 1;
    this.path = pathName(parent, name);
  }

  get isLeaf(): boolean {
    return this.given.size === 0 && this.turns.length === 0;
  }
}

/** The place of a request's list in the tree. */
export interface Placed<T> {
  /** The node of its last message. */
  readonly node: GraphNode<T>;
  /** Where it left what was there; null if it goes on, or is the first list of all. */
  readonly fork: Fork | null;
}

/** `T`: what is kept of a turn. It has its answer once it has been sampled. */
export class MessageGraph<T extends { readonly answer: AnsweredTurn | null }> {
  /** By the role that asks and the tools that are offered. */
  readonly roots = new Map<string, GraphNode<T>>();
  /** Of the roots, by what requests wrote. */
  readonly #rootKeys = new Map<string, string>();
  /** Of the first request of each role; of the first one with tools, if there is one. */
  readonly #firstTools = new Map<string | null, readonly ToolSpec[]>();

  /** Where a message was found: a request that goes on with another one has its messages, as the same objects. */
  readonly #places = new WeakMap<Message, GraphNode<T>>();

  /** Finds the messages of a list in the tree and adds those that are new. @param role null without one */
  place(messages: readonly Message[], tools: readonly ToolSpec[], role: string | null = null): Placed<T> {
    const key = this.#keyOf([role, tools]);
    const known = this.roots.get(key);
    const root = known ?? new GraphNode<T>({ parent: null, message: null, turn: null, name: key });
    this.roots.set(key, root);
    // Another role is another speaker, not a fork.
    const first = this.#firstTools.get(role);
    if (first === undefined || first.length === 0) this.#firstTools.set(role, tools);
    let fork: Fork | null = known !== undefined || first === undefined ? null : { kind: 'tools', at: 0, difference: toolsDifference(tools, first) };
    let node = root;
    for (const [at, message] of messages.entries()) {
      const place = this.#places.get(message);
      const next = place?.parent === node ? place : found(node, message, tools);
      if (next === null && fork === null && !node.isLeaf) fork = forkAt(node, message, at);
      node = next ?? added(node, message);
      // A turn may be answered later that an assistant's message tells.
      if (node !== place && (node.turn !== null || message.role !== 'assistant')) this.#places.set(message, node);
    }
    return { node, fork };
  }

  /** The key of a root: the order of keys in a schema does not count. Most requests write the tools as the one before did. */
  #keyOf(root: readonly [role: string | null, tools: readonly ToolSpec[]]): string {
    const written = JSON.stringify(root);
    const key = this.#rootKeys.get(written) ?? canonicalJson(root);
    this.#rootKeys.set(written, key);
    return key;
  }

  /** Adds a turn that answers the list that ends in this node. */
  addTurn(node: GraphNode<T>, turn: T): GraphNode<T> {
    // The place of one that was taken back is free again, so that asking again gives what the first request would have given.
    const free = node.turns.findIndex((other, i) => other.ordinal !== i);
    const ordinal = free === -1 ? node.turns.length : free;
    const child = new GraphNode<T>({ parent: node, message: null, turn, name: `turn ${ordinal}`, ordinal });
    node.turns.splice(ordinal, 0, child);
    return child;
  }

  /** Takes a turn out that nobody got. */
  takeBack(turn: GraphNode<T>): void {
    const { turns } = turn.parent!;
    turns.splice(turns.indexOf(turn), 1);
  }
}

function found<T extends { readonly answer: AnsweredTurn | null }>(
  node: GraphNode<T>,
  message: Message,
  tools: readonly ToolSpec[],
): GraphNode<T> | null {
  if (message.role === 'assistant') {
    const told = node.turns.find(({ turn }) => turn!.answer !== null && tells(message, turn!.answer, tools));
    if (told !== undefined) return told;
  }
  // A conversation is told again with each request, so that its end costs more than its beginning only if old messages are cheap.
  for (const child of node.given.values()) if (isWrittenAs(child.message!, message)) return child;
  return node.given.get(messageKey(message)) ?? null;
}

function added<T>(node: GraphNode<T>, message: Message): GraphNode<T> {
  const key = messageKey(message);
  const child = new GraphNode<T>({ parent: node, message, turn: null, name: key });
  node.given.set(key, child);
  return child;
}

function forkAt<T extends { readonly answer: AnsweredTurn | null }>(node: GraphNode<T>, message: Message, at: number): Fork | null {
  const [given] = node.given.values();
  const answer = node.turns.find(({ turn }) => turn!.answer !== null)?.turn?.answer ?? null;
  if (given === undefined && answer === null) return null;
  const before = given?.message ?? { role: 'assistant' as const, content: answer!.content };
  const kind = at === 0 && (message.role === 'system' || before.role === 'system') ? 'system' : 'history';
  return { kind, at, difference: messageDifference(before, message, at) };
}

/** Characters that are shown of each text, and most with the words that they lie in. */
const SHOWN = 60;
const LONGEST = 300;

function messageDifference(before: Message, now: Message, at: number): string {
  const place = `message ${at}`;
  if (before.role !== now.role) return `${place} was of the role ${before.role} and is of the role ${now.role}`;
  const [was, is] = [contentText(before.content), contentText(now.content)];
  if (was === is) return `${place} (${now.role}) has other calls`;
  let from = 0;
  while (from < Math.min(was.length, is.length) && was[from] === is[from]) from++;
  return `${place} (${now.role}) was ${shownFrom(was, from)} and is ${shownFrom(is, from)} from character ${from} on`;
}

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

function toolsDifference(tools: readonly ToolSpec[], first: readonly ToolSpec[]): string {
  const names = (of: readonly ToolSpec[]) => of.map(({ name }) => name);
  const [was, is] = [names(first), names(tools)];
  const [gone, fresh] = [was.filter((name) => !is.includes(name)), is.filter((name) => !was.includes(name))];
  if (gone.length === 0 && fresh.length === 0) return 'a tool has another description or other parameters';
  const parts = [...(gone.length === 0 ? [] : [`without ${gone.join(', ')}`]), ...(fresh.length === 0 ? [] : [`with ${fresh.join(', ')}`])];
  return `other tools are offered: ${parts.join('; ')}`;
}
