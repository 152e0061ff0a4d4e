/** Plays recorded exchanges of unmodified agents through the readers and a session, and writes down which branches they gave. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AgentRequest } from '../../src/agents/agent-request.ts';
import { chatDialect } from '../../src/agents/dialects/chat.ts';
import { messagesDialect } from '../../src/agents/dialects/messages.ts';
import type { ItemStore } from '../../src/agents/dialects/dialect.ts';
import { responsesDialect } from '../../src/agents/dialects/responses.ts';
import { canonicalJson } from '../../src/core/canonical-json.ts';
import { PolicyError } from '../../src/core/errors.ts';
import { branchesOf } from '../../src/rollouts/agent-branches.ts';
import { AgentSession } from '../../src/rollouts/agent-session.ts';
import type { SampledAgentTurn, TurnSampler } from '../../src/rollouts/agent-turns.ts';
import type { Generation } from '../../src/rollouts/rollout.ts';

interface Exchange {
  readonly path: string;
  readonly status: number;
  /** Absent for a request without a body. */
  readonly request?: unknown;
  /** What the stub answered; null if it failed. */
  readonly answer?: RecordedAnswer | null;
}

interface RecordedAnswer {
  readonly content: string;
  /** Ids. */
  readonly calls: readonly string[];
  /** Of Responses. */
  readonly items?: readonly Readonly<Record<string, unknown>>[];
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

export interface PlayedRun {
  /** Every branch as the numbers of the requests that its own turns answered; `1=2`: request 2 repeated request 1. A fork stands before the branch that it began. */
  readonly branches: readonly string[];
  readonly unhonoured: readonly string[];
}

/** Asks a session what the client asked; its policy answers what the stub answered. */
export async function playRun({ exchanges }: RecordedRun): Promise<PlayedRun> {
  const items = new Map<string, Readonly<Record<string, unknown>>>();
  const numbers = new Map<Generation, number[]>();
  const { signal } = new AbortController();
  let answer: RecordedAnswer | null | undefined = null;
  const sampler: TurnSampler = { sample: async () => sampled(answer), count: async () => 0 };
  const session = new AgentSession({
    sampler,
    models: {},
    sampling: { temperature: 1, topP: 1 },
    overridesSampling: false,
    completionTokens: Infinity,
    maxTurns: 100,
    signal,
  });
  for (const [i, exchange] of exchanges.entries()) {
    if (exchange.request === undefined) continue;
    // The stub answered anew where it had broken a stream off; a session gives the same answer again.
    answer = exchange.answer && exchanges.findLast((each) => canonicalJson(each.request) === canonicalJson(exchange.request))!.answer!;
    const request = readExchange(exchange, { item: (id) => items.get(id), response: () => undefined });
    const [turn] = await session.ask(request, signal).catch((error: unknown) => (answer ? Promise.reject(error as Error) : []));
    if (turn === undefined) continue;
    for (const item of answer?.items ?? []) items.set(String(item['id']), item);
    const { generation } = turn as SampledAgentTurn;
    numbers.set(generation, [...(numbers.get(generation) ?? []), i + 1]);
  }
  const branches = branchesOf(session).map(({ fork, generations }) => {
    const text = generations.map((generation) => numbers.get(generation)!.join('=')).join(' ');
    return fork === null ? text : `${fork.kind}@${fork.at}: ${text}`;
  });
  return { branches, unhonoured: [...session.requests.unhonoured] };
}

const USAGE = { promptTokens: 1, completionTokens: 1, cachedTokens: null };

function sampled(answer: RecordedAnswer | null | undefined): SampledAgentTurn {
  if (!answer) throw new PolicyError('the stub failed');
  const { content, calls } = answer;
  const toolCalls = calls.map((id) => ({ id, name: 'tool', arguments: '{}' }));
  const message = { role: 'assistant' as const, content, toolCalls };
  const generation = { finish: 'stop' as const, stopReason: null, usage: USAGE, maxNewTokens: null, keptTokens: null, overhang: '' };
  const played = { message, isClosed: true };
  return { content, toolCalls, finish: 'stop', usage: USAGE, played, recorded: message, text: content, generation, tokens: null };
}
