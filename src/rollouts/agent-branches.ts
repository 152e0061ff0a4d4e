/**
 * Cuts the tree of an agent's conversations into branches, the sequences that are trained and exported. Every sampled token is in exactly one branch with mask 1: the first
 * that holds it. The order depends on what was said and on what waited for what, not on which of two requests of the same moment arrived first.
 */
import { answerFork, type Fork, messageFork, SIDE, toolsFork } from '../agents/fork.ts';
import { markedText, type Message } from '../core/message.ts';
import type { TextSegment } from '../core/rubric.ts';
import { TokenBuffer } from '../core/token-buffer.ts';
import type { AgentSession, SessionTurn } from './agent-session.ts';
import { type AgentNode, pathOf } from './agent-turns.ts';
import type { Branch, Generation } from './rollout.ts';
import { imagesOf, promptOf } from './conversation-end.ts';

/** At least one turn of the policy in each; empty if it answered none. */
export function branchesOf({ graph }: Pick<AgentSession, 'graph'>): readonly Branch[] {
  const owners = new Map<AgentNode, number>();
  const branches: Branch[] = [];
  const taken: Taken = new Map();
  const paths = pathsOf([...graph.roots.values()]);
  const sides = sidesOf(paths);
  // What the rollout is about, whatever asked first: a guard in a role, or for a title.
  const rankOf = (path: Path) => (sides.has(path) ? 2 : turnsOf(path)[0]!.turn!.role === null ? 0 : 1);
  for (const path of paths.toSorted((a, b) => rankOf(a) - rankOf(b))) {
    const turns = turnsOf(path);
    const first = turns.findIndex((node) => !owners.has(node));
    if (first === -1) continue;
    const parent = first === 0 ? null : owners.get(turns[first - 1]!)!;
    for (const node of turns.slice(first)) owners.set(node, branches.length);
    const fork = branches.length === 0 ? null : sides.has(path) ? SIDE : forkOf(path, turns[first]!.turn!, { branches, taken });
    for (const node of path) taken.set(node.parent!, (taken.get(node.parent!) ?? new Set()).add(node));
    branches.push(branchOf(path, turns[first]!, { parent, fork }));
  }
  const last = owners.size === 0 ? -1 : owners.get(lastTurn([...owners.keys()]))!;
  return branches.map((branch, i) => (i === last && i < branches.length - 1 ? { ...branch, endsLast: true } : branch));
}

/** The ways that branches went from a node, in their order. */
type Taken = Map<AgentNode, Set<AgentNode>>;
type Path = readonly AgentNode[];

/** Questions of one turn without tools, where the role has conversations with some. One may come first, and yet the rollout is not about it. */
function sidesOf(paths: readonly Path[]): ReadonlySet<Path> {
  const firstOf = (path: Path) => turnsOf(path)[0]!.turn!;
  const offersTools = (path: Path) => firstOf(path).request.tools.length > 0;
  const withTools = new Set(paths.filter(offersTools).map((path) => firstOf(path).role));
  return new Set(paths.filter((path) => turnsOf(path).length === 1 && !offersTools(path) && withTools.has(firstOf(path).role)));
}

function turnsOf(path: Path): readonly AgentNode[] {
  return path.filter(({ turn }) => turn !== null);
}

function* childrenOf({ turns, given }: AgentNode): Iterable<AgentNode> {
  yield* turns;
  yield* given.values();
}

/** The paths to the last turns, in order. A list that was never answered has none. Loops, because a conversation may be longer than the stack is deep. */
function pathsOf(roots: readonly AgentNode[]): readonly Path[] {
  const kept = new Set<AgentNode>();
  for (const turn of roots.flatMap(answered)) for (let at: AgentNode | null = turn; at !== null && !kept.has(at); at = at.parent) kept.add(at);
  const inOrder = (nodes: Iterable<AgentNode>) =>
    sorted(
      Array.from(nodes).filter((node) => kept.has(node)),
      answered,
    );
  const paths: Path[] = [];
  const open = inOrder(roots).toReversed();
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    const next = inOrder(childrenOf(node));
    if (next.length === 0) paths.push(pathOf(node));
    for (const child of next.toReversed()) open.push(child);
  }
  return paths;
}

/** The answered turns at or below a node. */
function answered(node: AgentNode): readonly AgentNode[] {
  const found: AgentNode[] = [];
  const open = [node];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (at.turn !== null && at.turn.answer !== null) found.push(at);
    for (const child of childrenOf(at)) open.push(child);
  }
  return found;
}

/** Of turns that were at work at the same time the last by their messages. */
function lastTurn(nodes: readonly AgentNode[]): AgentNode {
  return sorted(nodes, (node) => [node]).at(-1)!;
}

/**
 * The one with the first turn of the rollout first, then by the time of their first turns; those of which turns were at work at the same time by their messages.
 * @param turnsIn at least one answered turn
 */
function sorted(nodes: readonly AgentNode[], turnsIn: (node: AgentNode) => readonly AgentNode[]): readonly AgentNode[] {
  if (nodes.length < 2) return nodes;
  const turns = nodes.flatMap((node) => turnsIn(node).map(({ turn }) => ({ node, begun: turn!.begun, ended: turn!.ended })));
  turns.sort((a, b) => a.begun - b.begun);
  const opening = turns[0]!.begun === 0 ? turns[0]!.node : null;
  const moments = new Map<AgentNode, number>();
  let [moment, end] = [0, 0];
  for (const { node, begun, ended } of turns) {
    if (node === opening) continue;
    if (begun >= end) moment = begun;
    end = Math.max(end, ended);
    const before = moments.get(node) ?? moment;
    const [kept, gone] = [Math.min(before, moment), Math.max(before, moment)];
    if (kept !== gone) for (const [other, at] of moments) if (at === gone) moments.set(other, kept);
    moments.set(node, kept);
    moment = kept;
  }
  const momentOf = (node: AgentNode) => moments.get(node) ?? 0;
  return nodes.toSorted((a, b) => momentOf(a) - momentOf(b) || (a.path < b.path ? -1 : 1));
}

/** Why a branch left those before it. Null for the first one of a role, which is another speaker. */
function forkOf(
  path: Path,
  { role, request }: SessionTurn,
  { branches, taken }: { readonly branches: readonly Branch[]; readonly taken: Taken },
): Fork | null {
  const next = path.find((node) => !taken.get(node.parent!)?.has(node))!;
  const others = [...(taken.get(next.parent!) ?? [])];
  const at = next.parent!.depth;
  if (others.length === 0) {
    const known = branches.filter((branch) => (branch.role ?? null) === role);
    return known.length === 0 ? null : toolsFork((known.find(({ tools }) => tools.length > 0) ?? known[0]!).tools, request.tools);
  }
  if (next.turn === null) return messageFork(at, messageOf(others[0]!), next.message);
  const again = others.filter(({ turn }) => turn !== null);
  if (again.length === 0) return messageFork(at, messageOf(others[0]!), null);
  const { begun } = next.turn;
  return answerFork(
    at,
    again.some((other) => answered(other).some((node) => node !== other && node.turn!.begun < begun)),
  );
}

function messageOf({ message, turn }: AgentNode): Message {
  return message ?? { role: 'assistant', content: turn!.answer!.content, toolCalls: turn!.answer!.toolCalls };
}

function branchOf(path: Path, first: AgentNode, { parent, fork }: Pick<Branch, 'parent' | 'fork'>): Branch {
  const at = path.indexOf(first);
  const own = path.slice(at);
  const { request, role } = first.turn!;
  return {
    parent,
    fork,
    prompt: path.slice(0, at).map(({ message, turn }) => message ?? turn!.answer!.recorded),
    tools: request.tools,
    segments: segmentsOf(own),
    generations: own.flatMap(({ turn }): Generation[] => (turn === null ? [] : [turn.answer!.generation])),
    tokens: bufferOf(own),
    ...(role === null ? {} : { role }),
  };
}

function segmentsOf(path: Path): readonly TextSegment[] {
  const segments: TextSegment[] = [];
  let given: Message[] = [];
  for (const { message, turn } of path) {
    if (turn === null) {
      given.push(message!);
      continue;
    }
    if (given.length > 0) segments.push({ kind: 'observation', text: given.map(({ content }) => markedText(content)).join('\n'), messages: given });
    given = [];
    const { text, recorded, toolCalls, reasoning, tokens } = turn.answer!;
    const thoughts = tokens !== null || reasoning === undefined ? {} : { reasoning };
    segments.push({ kind: 'model', text, ...(toolCalls.length === 0 ? {} : { messages: [recorded] }), ...thoughts });
  }
  return segments;
}

function bufferOf(path: Path): TokenBuffer | null {
  const opening = path[0]!.turn!.answer!.tokens;
  if (opening === null) return null;
  const buffer = new TokenBuffer();
  const ids = promptOf(opening);
  buffer.appendGiven('prompt', ids, imagesOf(opening, ids.length));
  for (const [i, { turn }] of path.entries()) {
    if (turn === null) continue;
    const { given, images: shown, sample, version } = turn.answer!.tokens!;
    if (i > 0) buffer.appendGiven('observation', given, shown);
    buffer.commit(sample, sample.text.length, version, { keepsEnd: true });
  }
  return buffer;
}
