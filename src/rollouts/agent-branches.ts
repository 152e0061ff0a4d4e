/**
 * Cuts the tree of an agent's conversations into branches, the sequences that are trained and exported. Every sampled token is in exactly one branch with mask 1: the first
 * that holds it. The order depends on what was said and on what waited for what, not on which of two requests of the same moment arrived first.
 */
import type { Fork } from '../agents/message-graph.ts';
import { markedText, type Message } from '../core/message.ts';
import type { TextSegment } from '../core/rubric.ts';
import { TokenBuffer } from '../core/token-buffer.ts';
import type { AgentSession, SessionTurn } from './agent-session.ts';
import { type AgentNode, pathOf } from './agent-turns.ts';
import type { Branch, Generation } from './rollout.ts';
import { imagesOf, promptOf } from './token-turn-sampler.ts';

/** At least one turn of the policy in each; empty if it answered none. */
export function branchesOf({ graph }: Pick<AgentSession, 'graph'>): readonly Branch[] {
  const spans = spansOf(graph.roots.values());
  const owners = new Map<AgentNode, number>();
  const branches: Branch[] = [];
  const paths = pathsOf([...graph.roots.values()], spans);
  const sides = sidesOf(paths);
  for (const path of [...paths.filter((each) => !sides.has(each)), ...sides]) {
    const turns = turnsOf(path);
    const first = turns.findIndex((node) => !owners.has(node));
    if (first === -1) continue;
    const parent = first === 0 ? null : owners.get(turns[first - 1]!)!;
    for (const node of turns.slice(first)) owners.set(node, branches.length);
    const fork = branches.length === 0 ? null : sides.has(path) ? SIDE : forkOf(turns[first]!);
    branches.push(branchOf(path, turns[first]!, { parent, fork }));
  }
  const last = owners.size === 0 ? -1 : owners.get(lastTurn([...owners.keys()]))!;
  return branches.map((branch, i) => (i === last && i < branches.length - 1 ? { ...branch, endsLast: true } : branch));
}

type Path = readonly AgentNode[];

const SIDE: Fork = { kind: 'side', at: 0, difference: 'one question was asked without tools, such as for a title' };

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

/** When the turns of a node and of those below it were at work, in the counts of the session's clock. */
interface Span {
  readonly node: AgentNode;
  readonly begun: number;
  readonly ended: number;
}

/** Of the nodes with an answered turn at or below them. Loops, because a conversation may be longer than the stack is deep. */
function spansOf(roots: Iterable<AgentNode>): ReadonlyMap<AgentNode, Span> {
  const spans = new Map<AgentNode, Span>();
  const nodes = [...roots];
  for (let i = 0; i < nodes.length; i++) for (const child of childrenOf(nodes[i]!)) nodes.push(child);
  for (const node of nodes.toReversed()) {
    let [begun, ended] = [Infinity, -1];
    if (node.turn !== null && node.turn.answer !== null) [begun, ended] = [node.turn.begun, node.turn.ended];
    for (const child of childrenOf(node)) {
      const below = spans.get(child);
      if (below === undefined) continue;
      begun = Math.min(begun, below.begun);
      ended = Math.max(ended, below.ended);
    }
    if (ended >= 0) spans.set(node, { node, begun, ended });
  }
  return spans;
}

function* childrenOf({ turns, given }: AgentNode): Iterable<AgentNode> {
  yield* turns;
  yield* given.values();
}

/** The paths to the last turns, in order. A list that was never answered has none. */
function pathsOf(roots: readonly AgentNode[], spans: ReadonlyMap<AgentNode, Span>): readonly Path[] {
  const inOrder = (nodes: Iterable<AgentNode>) => sorted(Array.from(nodes).flatMap((node) => spans.get(node) ?? []));
  const paths: Path[] = [];
  const open = inOrder(roots).toReversed();
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    const next = inOrder(childrenOf(node));
    if (next.length === 0) paths.push(pathOf(node));
    for (const child of next.toReversed()) open.push(child);
  }
  return paths;
}

/** Of turns that were at work at the same time the last by their messages. */
function lastTurn(nodes: readonly AgentNode[]): AgentNode {
  return sorted(nodes.map((node) => ({ node, begun: node.turn!.begun, ended: node.turn!.ended }))).at(-1)!;
}

/** The first turn of the rollout first, then by time; those that were at work at the same time by their messages. */
function sorted(spans: readonly Span[]): readonly AgentNode[] {
  const groups: Span[][] = [];
  let end = -1;
  for (const span of spans.toSorted((a, b) => a.begun - b.begun)) {
    if (span.begun === 0 || span.begun >= end) groups.push([]);
    groups.at(-1)!.push(span);
    end = span.begun === 0 ? -1 : Math.max(end, span.ended);
  }
  return groups.flatMap((group) => group.toSorted((a, b) => (a.node.path < b.node.path ? -1 : 1)).map(({ node }) => node));
}

function answered(node: AgentNode): readonly SessionTurn[] {
  const found: SessionTurn[] = [];
  const open = [node];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (at.turn !== null && at.turn.answer !== null) found.push(at.turn);
    for (const child of childrenOf(at)) open.push(child);
  }
  return found;
}

/** Why a branch left the others. Of two requests of the same moment the later one has the reason, although its branch may come first. */
function forkOf(first: AgentNode): Fork | null {
  let fork = first.turn!.fork;
  for (let node = first; node.parent !== null; node = node.parent) {
    const { depth } = node.parent;
    const others = Array.from(childrenOf(node.parent)).filter((other) => other !== node);
    fork ??= others.flatMap(answered).find((turn) => turn.fork?.at === depth)?.fork ?? null;
  }
  return fork;
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
