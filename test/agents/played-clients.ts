/** Plays recorded exchanges of unmodified agents through the readers and the graph, and writes down which branches they gave. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AgentRequest } from '../../src/agents/agent-request.ts';
import { chatDialect } from '../../src/agents/dialects/chat.ts';
import { messagesDialect } from '../../src/agents/dialects/messages.ts';
import type { ItemStore } from '../../src/agents/dialects/responses-request.ts';
import { responsesDialect } from '../../src/agents/dialects/responses.ts';
import { type Fork, type GraphNode, MessageGraph } from '../../src/agents/message-graph.ts';
import { canonicalJson } from '../../src/core/canonical-json.ts';

interface Exchange {
  readonly path: string;
  readonly status: number;
  /** Absent for a request without a body. */
  readonly request?: unknown;
  /** What the stub answered: null if it failed, `cut` if its stream broke. */
  readonly answer?: RecordedAnswer | null;
}

interface RecordedAnswer {
  readonly content: string;
  /** Ids. */
  readonly calls: readonly string[];
  /** Of Responses. */
  readonly items?: readonly Readonly<Record<string, unknown>>[];
  readonly cut?: true;
}

export interface RecordedRun {
  readonly client: string;
  readonly script: string;
  readonly exchanges: readonly Exchange[];
}

export function recordedRuns(): readonly RecordedRun[] {
  const directory = join(import.meta.dirname, '../golden/agents');
  return readdirSync(directory)
    .filter((name) => name.endsWith('.jsonl'))
    .flatMap((name) =>
      readFileSync(join(directory, name), 'utf8')
        .trim()
        .split('\n')
        .map((line) => ({ client: name.slice(0, -'.jsonl'.length), ...(JSON.parse(line) as Omit<RecordedRun, 'client'>) })),
    );
}

function readExchange({ path, request }: Exchange, items: ItemStore): AgentRequest {
  const dialect = path.includes('chat/completions') ? chatDialect : path.includes('responses') ? responsesDialect : messagesDialect;
  return dialect.read(request, items);
}

interface Turn {
  readonly numbers: number[];
  readonly fork: Fork | null;
  readonly settings: string;
  answer: { readonly content: string; readonly toolCalls: readonly { readonly id: string }[] } | null;
}

export interface PlayedRun {
  /** Every branch as the numbers of the requests that its turns answered; `1=2`: request 2 repeated request 1. A fork stands before the branch that it began. */
  readonly branches: readonly string[];
  readonly unhonoured: readonly string[];
}

export function playRun({ exchanges }: RecordedRun): PlayedRun {
  const graph = new MessageGraph<Turn>();
  const items = new Map<string, Readonly<Record<string, unknown>>>();
  const unhonoured = new Set<string>();
  for (const [i, exchange] of exchanges.entries()) {
    if (exchange.request === undefined) continue;
    const request = readExchange(exchange, { item: (id) => items.get(id), response: () => undefined });
    for (const key of request.unhonoured) unhonoured.add(key);
    const { node, fork } = graph.place(request.messages, request.tools);
    const { answer = null } = exchange;
    if (answer === null) continue;
    for (const item of answer.items ?? []) items.set(String(item['id']), item);
    const settings = canonicalJson(request.settings);
    const repeated = node.turns.find(({ isLeaf, turn }) => isLeaf && turn!.settings === settings)?.turn;
    const turn = repeated ?? { numbers: [], fork, settings, answer: null };
    turn.numbers.push(i + 1);
    if (answer.cut !== true) turn.answer = { content: answer.content, toolCalls: answer.calls.map((id) => ({ id })) };
    if (repeated === undefined || repeated === null) graph.addTurn(node, turn);
  }
  return { branches: branchesOf([...graph.roots.values()]), unhonoured: [...unhonoured] };
}

function branchesOf(roots: readonly GraphNode<Turn>[]): readonly string[] {
  const branches: { readonly at: number; readonly text: string }[] = [];
  const walk = (node: GraphNode<Turn>, path: readonly Turn[]) => {
    const turns = node.turn === null ? path : [...path, node.turn];
    const next = [...node.turns, ...node.given.values()];
    for (const child of next) walk(child, turns);
    if (next.length > 0 || turns.length === 0) return;
    const fork = turns.map((turn) => turn.fork).find((each) => each !== null);
    const text = turns.map(({ numbers }) => numbers.join('=')).join(' ');
    branches.push({ at: turns.at(-1)!.numbers[0]!, text: fork === undefined ? text : `${fork.kind}@${fork.at}: ${text}` });
  };
  for (const root of roots) walk(root, []);
  return branches.toSorted((a, b) => a.at - b.at).map(({ text }) => text);
}
