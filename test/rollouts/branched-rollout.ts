/** Rollouts of several branches as an agent's session gives them: a real session, real branches, a scripted policy. */
import type { AgentSettings } from '../../src/agents/agent-request.ts';
import type { ToolSpec } from '../../src/core/tool-calls.ts';
import { contentText, type Message } from '../../src/core/message.ts';
import { Random } from '../../src/core/random.ts';
import type { Row } from '../../src/core/dataset.ts';
import type { PolicyLease, TokenLease } from '../../src/clients/policy-client.ts';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { branchesOf } from '../../src/rollouts/agent-branches.ts';
import { AgentSession } from '../../src/rollouts/agent-session.ts';
import type { SampledAgentTurn } from '../../src/rollouts/agent-turns.ts';
import { ChatTurnSampler } from '../../src/rollouts/chat-turn-sampler.ts';
import { TokenTurnSampler } from '../../src/rollouts/token-turn-sampler.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';

const LOOK: ToolSpec = { name: 'look', description: 'Looks.', parameters: { type: 'object', properties: { at: { type: 'string' } } } };
const LIMITS = { promptTokens: Infinity, responseTokens: Infinity, observationTokens: Infinity, completionTokens: Infinity } as never;

interface AskOptions {
  readonly tools?: readonly ToolSpec[];
  readonly settings?: AgentSettings;
  readonly role?: string;
}

/** Asks of one rollout. Every one brings the whole conversation and the text that the policy is to write. */
export class Asks {
  readonly #written: string[] = [];
  readonly session: AgentSession;

  private constructor(lease: () => Promise<PolicyLease>, client: ScriptedClient, written: string[]) {
    this.#written = written;
    const shared = { capabilities: client.capabilities, limits: LIMITS, maxTokens: null, readsThoughts: false, random: Random.fromSeed(1) };
    const sampler =
      client.capabilities.kind === 'chat'
        ? new ChatTurnSampler({ ...shared, lease: lease as never })
        : new TokenTurnSampler({ ...shared, lease: lease as () => Promise<TokenLease> });
    const signal = new AbortController().signal;
    this.session = new AgentSession({
      sampler,
      sampling: { temperature: 1, topP: 1 },
      models: {},
      overridesSampling: true,
      completionTokens: Infinity,
      maxTurns: 100,
      signal,
    });
  }

  static async open(kind: 'tokens' | 'chat'): Promise<Asks> {
    const written: string[] = [];
    const client = new ScriptedClient({
      kind,
      turns: () => written.shift()!,
      logProb: (i, id) => -0.01 * (i + id),
      template: (messages) =>
        `${messages.map(({ role, content }) => `<|im_start|>${role}\n${contentText(content)}<|im_end|>\n`).join('')}<|im_start|>assistant\n`,
    });
    const signal = new AbortController().signal;
    const first = await client.lease(signal);
    return new Asks(() => client.lease(signal, { like: first }), client, written);
  }

  /** The messages that the policy answers with, as an agent restates them. @param texts several ask for as many answers; none where nothing may be sampled */
  async ask(
    messages: readonly Message[],
    texts: string | readonly string[],
    { tools = [LOOK], settings = {}, role }: AskOptions = {},
  ): Promise<Message[]> {
    const list = [texts].flat();
    this.#written.push(...list);
    const asked = list.length > 1 ? { ...settings, n: list.length } : settings;
    const request = { model: 'm', messages, tools, settings: asked, isStreamed: false, unhonoured: [] };
    const turns = (await this.session.ask(request, new AbortController().signal, role)) as readonly SampledAgentTurn[];
    return turns.map(({ recorded }) => recorded);
  }
}

export interface BranchedOptions {
  readonly kind?: 'tokens' | 'chat';
  readonly row?: Row;
  readonly index?: number;
  readonly reward?: number;
  /** @default forks of five kinds */
  readonly forks?: boolean;
}

const ROW: Row = { exampleId: 'peru', prompt: [{ role: 'user', content: 'What is the capital of Peru?' }], answer: 'Lima' };

/** A rollout with forks of five kinds: history, system, side, retry, sample. */
export async function branchedRollout({ kind = 'tokens', row = ROW, index = 0, reward = 1, forks = true }: BranchedOptions = {}): Promise<Rollout> {
  const asks = await Asks.open(kind);
  const opening: Message[] = [{ role: 'system', content: 'Be brief.' }, ...row.prompt];
  const end = kind === 'tokens' ? '<|im_end|>' : '';
  const call = kind === 'tokens' ? 'I look. <tool_call>\n{"name": "look", "arguments": {"at": "peru"}}\n</tool_call>' : 'I look.';
  const [look] = await asks.ask(opening, `${call}${end}`);
  const id = look!.toolCalls?.[0]?.id ?? 'none';
  const answer = (content: string): Message => (kind === 'tokens' ? { role: 'tool', content, toolCallId: id } : { role: 'user', content });
  await asks.ask([...opening, look!, answer('Lima is the capital of Peru.')], `Lima${end}`);
  if (forks) {
    const [kept] = await asks.ask([...opening, look!, answer('Summary: Lima.')], `It is Lima.${end}`);
    await asks.ask(
      [
        { role: 'system', content: 'You check facts.' },
        { role: 'user', content: 'Is Lima a capital?' },
      ],
      `Yes.${end}`,
    );
    await asks.ask([{ role: 'user', content: 'Name this chat.' }], `Capitals${end}`, { tools: [] });
    await asks.ask(opening, `I know it: Lima.${end}`);
    const said: Message = { role: 'assistant', content: 'Noted by the agent.' };
    await asks.ask(
      [...opening, look!, answer('Summary: Lima.'), kept!, said, { role: 'user', content: 'Sure?' }],
      [`Sure.${end}`, `Very sure.${end}`],
    );
  }
  return rolloutOf(asks, { row, index, reward });
}

export function rolloutOf({ session }: Asks, { row = ROW, index = 0, reward = 1 }: BranchedOptions = {}): Rollout {
  const branches = branchesOf(session);
  const generations = branches.flatMap((branch) => branch.generations);
  const sum = (of: 'promptTokens' | 'completionTokens') => generations.reduce((total, { usage }) => total + usage[of], 0);
  return {
    rolloutId: `${row.exampleId}/${index}`,
    groupId: String(row.exampleId),
    index,
    task: null,
    row,
    reward,
    metrics: { right: reward },
    error: null,
    stop: 'completed',
    isTruncated: false,
    isCut: false,
    turns: generations.length,
    policy: { model: 'scripted', version: 0 },
    usage: { inputTokens: sum('promptTokens'), outputTokens: sum('completionTokens'), cachedTokens: null },
    prompt: branches[0]!.prompt,
    tools: branches[0]!.tools,
    turnFormat: 'chat',
    segments: branches.flatMap(({ segments }) => segments),
    branches,
    cleanUpError: null,
    asked: [],
    generations,
    state: { answer: 'Lima' },
    cutObservations: 0,
    scoredWith: 1,
    attempts: 1,
    timing: { startedAtMs: 1.7e12, setupMs: 1, generationMs: 5, environmentMs: 2, scoringMs: 1 },
  };
}
