/**
 * CPU time of an agent's turns in a conversation of 200: a turn must cost what is new in it, not what was said before. Each turn is 200 tokens with a call of a tool, and the
 * tool's answer has 200 too; the policy is a script by token ids behind a real tokenizer and a real chat template. Over HTTP the gateway has a process of its own, and the time in
 * which JSON.parse reads the same body is taken off.
 * `npm run bench -- agent-turns [--turns 200] [--conversations 7] [--template qwen-2-5] [--http | --in-process]`
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request as undiciRequest } from 'undici';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { LanguageModelV4Message } from '@ai-sdk/provider';
import { CallerPolicy } from '../../src/clients/caller-policy.ts';
import { Random } from '../../src/core/random.ts';
import { branchesOf } from '../../src/rollouts/agent-branches.ts';
import { policyOfRollout } from '../../src/rollouts/agent-policy.ts';
import { AgentSession } from '../../src/rollouts/agent-session.ts';
import { samplerOf } from '../../src/rollouts/sampler-of.ts';
import { Gateway } from '../../src/server/gateway/gateway.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';

const ROOT = join(import.meta.dirname, '../..');
const TOKENS = 200;
/** Turns at the beginning and at the end that are compared. */
const COMPARED = 10;
const signal = new AbortController().signal;
const { values: flags } = parseArgs({
  options: {
    turns: { type: 'string', default: '200' },
    conversations: { type: 'string', default: '7' },
    template: { type: 'string', default: 'qwen-2-5' },
    http: { type: 'boolean' },
    'in-process': { type: 'boolean' },
    server: { type: 'boolean' },
  },
});
const turns = Number(flags.turns);
const conversations = Number(flags.conversations);

const WORDS = 'heron grey river stone night water small light bird old wing field morning letter house green road winter ship summer'.split(' ');
const tokenizer = await openLocalTokenizer(join(ROOT, 'models/nano-base'), {
  chatTemplate: readFileSync(join(ROOT, 'test/golden/chat-templates', `${flags.template}.jinja`), 'utf8'),
});

/** A text of so many tokens, with other words in every turn. */
async function textOf(turn: number, tokens: number): Promise<string> {
  const random = Random.fromSeed(turn);
  let text = `turn ${turn}`;
  for (;;) {
    const next = `${text} ${WORDS[random.integer(WORDS.length)]}`;
    if ((await tokenizer.encode(next)).ids.length > tokens) return text;
    text = next;
  }
}

const call = (turn: number) => `<tool_call>\n{"name": "search", "arguments": {"query": "heron ${turn}"}}\n</tool_call>`;
const written = await Promise.all(
  Array.from({ length: turns }, async (_, turn) => {
    const called = call(turn);
    const text = `${await textOf(turn, TOKENS - (await tokenizer.encode(called)).ids.length - 2)}\n${called}`;
    const end = await tokenizer.closingToken();
    return { text, ids: [...(await tokenizer.encode(text)).ids, end!] };
  }),
);
const results = await Promise.all(Array.from({ length: turns }, (_, turn) => textOf(turn + turns, TOKENS)));
const TOOL = { description: 'Searches.', parameters: { type: 'object', properties: { query: { type: 'string' } } } };

const client = new CallerPolicy({
  kind: 'tokens',
  tokenizer,
  traits: { toolCalls: 'hermes', chatTemplate: 'model' },
  ask: async ({ turn }) => {
    const { ids } = written[turn]!;
    return { kind: 'tokens', tokenIds: ids, logProbs: ids.map(() => -0.5), finish: 'stop' };
  },
});

async function openSession(): Promise<AgentSession> {
  const lease = await client.lease(signal);
  const asked = {
    lease,
    another: () => client.lease(signal),
    capabilities: client.capabilities,
    sampling: { temperature: 1, topP: 1 },
    overridesSampling: true,
    maxTokens: null,
    random: Random.fromSeed(1),
    gateway: null,
  };
  const limits = { responseTokens: Infinity, observationTokens: Infinity, contextTokens: Infinity };
  return new AgentSession({
    sampler: samplerOf(asked, { limits, readsThoughts: false }),
    models: {},
    sampling: asked.sampling,
    overridesSampling: true,
    completionTokens: Infinity,
    maxTurns: Infinity,
    signal,
  });
}

/** Throws unless the conversation is one branch of every turn. */
function assertWhole(session: AgentSession): void {
  const branches = branchesOf(session);
  const [branch] = branches;
  if (branches.length !== 1 || branch!.generations.length !== turns)
    throw new Error(`${branches.length} branches, ${branch?.generations.length} turns`);
}

function cpuMs(before?: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** CPU milliseconds of each turn. [turns] */
async function playInProcess(): Promise<readonly number[]> {
  const session = await openSession();
  using open = policyOfRollout(session, { name: 'policy', gateway: null });
  const model = open.policy.languageModel();
  const prompt: LanguageModelV4Message[] = [{ role: 'user', content: [{ type: 'text', text: 'Where is the heron?' }] }];
  const costs: number[] = [];
  for (let turn = 0; turn < turns; turn++) {
    // The SDK makes its list anew in every step.
    const told = prompt.map((message) => ({ ...message })) as typeof prompt;
    const before = process.cpuUsage();
    const { content } = await model.doGenerate({
      prompt: told,
      tools: [{ type: 'function', name: 'search', description: TOOL.description, inputSchema: TOOL.parameters as object }],
    });
    costs.push(cpuMs(before));
    const called = content.find((part) => part.type === 'tool-call')!;
    prompt.push({
      role: 'assistant',
      content: [
        ...content.flatMap((part) => (part.type === 'text' ? [{ type: 'text' as const, text: part.text }] : [])),
        { type: 'tool-call', toolCallId: called.toolCallId, toolName: called.toolName, input: JSON.parse(called.input) },
      ],
    });
    prompt.push({
      role: 'tool',
      content: [{ type: 'tool-result', toolCallId: called.toolCallId, toolName: called.toolName, output: { type: 'text', value: results[turn]! } }],
    });
  }
  assertWhole(session);
  return costs;
}

interface Cost {
  /** Milliseconds of CPU. */
  readonly whole: number;
  /** Of JSON.parse for the same body. */
  readonly parsing: number;
}

const pool = new Agent({ connections: 1 });

async function playOverHttp(server: ChildProcess): Promise<readonly Cost[]> {
  const asked = async (message: string): Promise<unknown> => {
    server.send(message);
    return ((await once(server, 'message')) as [unknown])[0];
  };
  const address = (await asked('open')) as { baseURL: string; apiKey: string };
  const messages: object[] = [{ role: 'user', content: 'Where is the heron?' }];
  const tools = [{ type: 'function', function: { name: 'search', ...TOOL } }];
  const costs: Cost[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const body = JSON.stringify({ model: 'policy', messages, tools });
    const before = (await asked('cpu')) as number;
    const response = await undiciRequest(`${address.baseURL}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${address.apiKey}` },
      body,
      dispatcher: pool,
    });
    const answer = (await response.body.json()) as { choices: [{ message: { tool_calls: [{ id: string }] } }] };
    if (response.statusCode !== 200) throw new Error(JSON.stringify(answer));
    const whole = ((await asked('cpu')) as number) - before;
    const parsed = process.cpuUsage();
    JSON.parse(body);
    costs.push({ whole, parsing: cpuMs(parsed) });
    const { message } = answer.choices[0];
    messages.push(message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: results[turn]! });
  }
  await asked('close');
  return costs;
}

/** The gateway's process. */
async function serve(): Promise<void> {
  const gateway = await Gateway.open({ onFailure: (error) => process.stderr.write(`${String(error)}\n`) });
  let session: AgentSession | null = null;
  let open: ReturnType<typeof policyOfRollout> | null = null;
  const replies: Readonly<Record<string, () => unknown>> = {
    async open() {
      session = await openSession();
      open = policyOfRollout(session, { name: 'policy', gateway });
      return { baseURL: open.policy.baseURL, apiKey: open.policy.apiKey };
    },
    cpu: () => cpuMs(),
    close() {
      assertWhole(session!);
      open![Symbol.dispose]();
    },
  };
  process.on('message', (name: string) => void Promise.resolve(replies[name]!()).then((reply) => process.send!(reply ?? null)));
  process.on('disconnect', () => process.exit());
  process.send!('ready');
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]!;

/** The median of each turn over conversations. */
function byTurn(played: readonly (readonly number[])[]): readonly number[] {
  return Array.from({ length: turns }, (_, turn) => median(played.map((costs) => costs[turn]!)));
}

function print(name: string, costs: readonly number[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [first, last] = [mean(costs.slice(0, COMPARED)), mean(costs.slice(-COMPARED))];
  process.stdout.write(
    `${name}: ${first.toFixed(3)} ms in the first ${COMPARED} turns, ${last.toFixed(3)} ms in the last: ${(last / first).toFixed(2)}\n`,
  );
  return last / first;
}

if (flags.server === true) await serve();
else {
  if (flags.http !== true) {
    await playInProcess();
    const played: (readonly number[])[] = [];
    for (let i = 0; i < conversations; i++) played.push(await playInProcess());
    print('in this process', byTurn(played));
  }
  if (flags['in-process'] !== true) {
    const server = fork(import.meta.filename, ['--server', '--turns', flags.turns, '--template', flags.template], { execArgv: process.execArgv });
    await once(server, 'message');
    await playOverHttp(server);
    const played: (readonly Cost[])[] = [];
    for (let i = 0; i < conversations; i++) played.push(await playOverHttp(server));
    print('over HTTP', byTurn(played.map((costs) => costs.map(({ whole }) => whole))));
    print('JSON.parse of the body', byTurn(played.map((costs) => costs.map(({ parsing }) => parsing))));
    print('over HTTP without JSON.parse', byTurn(played.map((costs) => costs.map(({ whole, parsing }) => whole - parsing))));
    server.disconnect();
    await pool.close();
  }
}
