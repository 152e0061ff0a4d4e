/**
 * The conversations of one rollout as a tree: what the agent said and what the policy answered. It knows no tokens: the same conversations give the same tree, however their
 * requests overlap.
 */
import type { Message } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import { Random } from '../core/random.ts';
import { type AnsweredTurn, isWrittenAs, messageKey, tells } from './message-key.ts';

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

  /** No turn goes on from it. A list that was refused has none. */
  get isLeaf(): boolean {
    const open = [...this.given.values()];
    for (const node of open) {
      if (node.turns.length > 0) return false;
      for (const child of node.given.values()) open.push(child);
    }
    return this.turns.length === 0;
  }
}

interface Answering {
  /** Null until it has been sampled. */
  readonly answer: AnsweredTurn | null;
}

/** `T`: what is kept of a turn. */
export class MessageGraph<T extends Answering> {
  /** By the role that asks and the tools that are offered. */
  readonly roots = new Map<string, GraphNode<T>>();
  /** Of the roots, by what requests wrote. */
  readonly #rootKeys = new Map<string, string>();

  /**
   * Finds the messages of a list in the tree and adds those that are new.
   * @param role null without one
   * @returns the node of the last message
   */
  place(messages: readonly Message[], tools: readonly ToolSpec[], role: string | null = null): GraphNode<T> {
    const key = this.#keyOf([role, tools]);
    const root = this.roots.get(key) ?? new GraphNode<T>({ parent: null, message: null, turn: null, name: key });
    this.roots.set(key, root);
    let node = furthest(root, messages, tools);
    for (let at = node.depth; at < messages.length; at++) node = added(node, messages[at]!);
    return node;
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

/**
 * The last node of the list that is in the tree. A message of the assistant may tell several turns, and one that the agent wrote: of the ways that the list can take then, the one on which the
 * policy was asked last counts. Looks at each node once.
 */
function furthest<T extends Answering>(root: GraphNode<T>, messages: readonly Message[], tools: readonly ToolSpec[]): GraphNode<T> {
  const ends: GraphNode<T>[] = [];
  let ways = [root];
  for (const message of messages) {
    const next: GraphNode<T>[] = [];
    for (const node of ways) {
      const before = next.length;
      putMatches(next, { node, message, tools });
      if (next.length === before) ends.push(node);
    }
    ways = next;
    if (ways.length === 0) break;
  }
  ends.push(...ways);
  return ends.reduce((best, end) => {
    const later = lastAsked(end) - lastAsked(best);
    return later > 0 || (later === 0 && end.depth > best.depth) ? end : best;
  });
}

/** The depth of the last turn, or of the last list that the policy was asked with, up to a node. */
function lastAsked<T>(node: GraphNode<T>): number {
  let at = node;
  while (at.parent !== null && at.turn === null && at.turns.length === 0) at = at.parent;
  return at.depth;
}

/** Adds the children that a message tells: turns first, then what the agent wrote. */
function putMatches<T extends Answering>(
  matches: GraphNode<T>[],
  { node, message, tools }: { readonly node: GraphNode<T>; readonly message: Message; readonly tools: readonly ToolSpec[] },
): void {
  if (message.role === 'assistant')
    for (const child of node.turns) if (child.turn!.answer !== null && tells(message, child.turn!.answer, tools)) matches.push(child);
  if (node.given.size === 0) return;
  // A conversation is told again with each request, so that its end costs more than its beginning only if old messages are cheap.
  for (const child of node.given.values())
    if (isWrittenAs(child.message!, message)) {
      matches.push(child);
      return;
    }
  const child = node.given.get(messageKey(message));
  if (child !== undefined) matches.push(child);
}

function added<T>(node: GraphNode<T>, message: Message): GraphNode<T> {
  const key = messageKey(message);
  const child = new GraphNode<T>({ parent: node, message, turn: null, name: key });
  node.given.set(key, child);
  return child;
}
