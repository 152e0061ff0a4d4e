/**
 * Load on the gateway: many agents at once, each with sessions of its own, in all three dialects, streamed and not, with repeats, lost connections, sub-agents in parallel, other
 * sessions' keys and garbage. The policy repeats the last message, which says whose it is: an answer or a rollout with a word of another session is a mix-up.
 * `npm run bench -- gateway-soak [--agents 256] [--seconds 300] [--think-ms 1000]`
 * Agents think between their turns, up to twice `--think-ms`. Prints the mix-ups, the time of a turn, and the memory of the gateway's process in MB after each minute, under load, and after all.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Agent, request as undiciRequest } from 'undici';
import { Random } from '../../src/core/random.ts';

const { values: flags } = parseArgs({
  options: {
    agents: { type: 'string', default: '256' },
    seconds: { type: 'string', default: '300' },
    'think-ms': { type: 'string', default: '1000' },
  },
});
const [agents, seconds, thinkMs] = [Number(flags.agents), Number(flags.seconds), Number(flags['think-ms'])];
const MOST_TURNS = 20;
const child = fork(join(import.meta.dirname, 'gateway-process.ts'), ['echo'], { execArgv: ['--expose-gc', '--conditions=vf-search-source'] });
const [url] = (await once(child, 'message')) as [string];
const pool = new Agent({ connections: agents, headersTimeout: 120_000, bodyTimeout: 120_000 });
const startedMs = performance.now();
const end = startedMs + seconds * 1000;
const counts = { sessions: 0, turns: 0, repeats: 0, lost: 0, strangers: 0, garbage: 0, mixed: 0, failed: 0 };
const turnMs: number[] = [];

interface Session {
  readonly session_id: string;
  readonly base_url: string;
  readonly api_key: string;
}

async function send(
  path: string,
  { body, key = 'none', method = 'POST', signal }: Sent,
): Promise<{ readonly status: number; readonly text: string }> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
  const response = await undiciRequest(path, {
    method,
    headers,
    dispatcher: pool,
    ...(body === undefined ? {} : { body }),
    ...(signal && { signal }),
  });
  return { status: response.statusCode, text: await response.body.text() };
}

interface Sent {
  readonly body?: string;
  readonly key?: string;
  readonly method?: 'POST' | 'GET' | 'DELETE';
  readonly signal?: AbortSignal;
}

type Said = readonly { readonly role: 'user' | 'assistant'; readonly content: string }[];

const ROUTES = [
  { path: 'chat/completions', body: (messages: Said, stream: boolean) => ({ model: 'm', messages, stream }) },
  { path: 'messages', body: (messages: Said, stream: boolean) => ({ model: 'm', max_tokens: 1000, messages, stream }) },
  { path: 'responses', body: (input: Said, stream: boolean) => ({ model: 'm', input, stream, store: false }) },
] as const;

/** The session markers that a text contains: `agent-3-7` is the seventh session of the third agent. */
const namesIn = (text: string) => new Set(text.match(/agent-\d+-\d+/g));

function checkWords(text: string, name: string): void {
  const names = namesIn(text);
  if (names.size !== 1 || !names.has(name)) counts.mixed += 1;
}

/** The key of the session that was opened last, for strangers. */
let lastKey = 'none';

async function play(agent: number, round: number, random: Random): Promise<void> {
  const name = `agent-${agent}-${round}`;
  const session = JSON.parse((await send(`${url}/sessions`, { body: '{}' })).text) as Session;
  const stranger = lastKey;
  lastKey = session.api_key;
  counts.sessions += 1;
  const route = ROUTES[random.integer(ROUTES.length)]!;
  const at = `${session.base_url}/${route.path}`;
  let said: Said = [];
  const turns = 1 + random.integer(MOST_TURNS);
  for (let turn = 0; turn < turns && performance.now() < end; turn++) {
    const content = `${name} turn ${turn} ${'word '.repeat(random.integer(200))}`.trim();
    const asked: Said = [...said, { role: 'user', content }];
    const body = JSON.stringify(route.body(asked, random.integer(2) === 0));
    await delay(random.integer(2 * thinkMs + 1));
    if (random.integer(20) === 0) await leave(at, body, session.api_key);
    const begun = performance.now();
    const { status, text } = await send(at, { body, key: session.api_key });
    turnMs.push(performance.now() - begun);
    counts.turns += 1;
    if (status !== 200) counts.failed += 1;
    else checkWords(text, name);
    if (!text.includes(`heard ${name} turn ${turn}`)) counts.mixed += 1;
    if (random.integer(10) === 0) await repeat(at, body, session.api_key, name);
    if (random.integer(30) === 0) await intrude(at, body, { stranger, name });
    if (random.integer(30) === 0) await fanOut(at, route, { asked, key: session.api_key, name });
    said = [...asked, { role: 'assistant', content: `heard ${content}` }];
  }
  const ended = JSON.parse((await send(`${url}/sessions/${session.session_id}/reward`, { body: '{"reward": 1}' })).text) as { rollout?: object };
  if (said.length > 0) checkWords(JSON.stringify(ended.rollout ?? null), name);
  const late = await send(at, { body: JSON.stringify(route.body([{ role: 'user', content: 'late' }], false)), key: session.api_key });
  if (late.status !== 400) counts.mixed += 1;
  await send(`${url}/sessions/${session.session_id}`, { method: 'DELETE' });
}

async function leave(at: string, body: string, key: string): Promise<void> {
  counts.lost += 1;
  const left = new AbortController();
  const sent = send(at, { body, key, signal: left.signal }).catch(() => null);
  setImmediate(() => left.abort());
  await sent;
}

/** Asks for the same list again, which must give the same session's answer. */
async function repeat(at: string, body: string, key: string, name: string): Promise<void> {
  counts.repeats += 1;
  checkWords((await send(at, { body, key })).text, name);
}

async function intrude(at: string, body: string, { stranger: key, name }: { readonly stranger: string; readonly name: string }): Promise<void> {
  counts.strangers += 1;
  const { status, text } = await send(at, { body, key });
  // A session that has ended has no key any more, which is then as good as any.
  if (status === 200) checkWords(text, name);
  counts.garbage += 1;
  if ((await send(at, { body: `{"messages":[{"role":"user","content":"${body.length}`, key })).status < 400) counts.mixed += 1;
}

/** Sub-agents in parallel, in the same session. */
async function fanOut(
  at: string,
  route: (typeof ROUTES)[number],
  { asked, key, name }: { readonly asked: Said; readonly key: string; readonly name: string },
): Promise<void> {
  await Promise.all(
    Array.from({ length: 4 }, async (_, i) => {
      const content = `${name} helper ${i}`;
      const { text } = await send(at, { body: JSON.stringify(route.body([...asked.slice(0, -1), { role: 'user', content }], false)), key });
      if (!text.includes(`heard ${content}`)) counts.mixed += 1;
      checkWords(text, name);
    }),
  );
}

interface Memory {
  readonly rss: number;
  readonly heap: number;
}

async function memory(): Promise<Memory> {
  child.send('memory');
  const [{ rss, heap }] = (await once(child, 'message')) as [Memory];
  const megabytes = (bytes: number) => Math.round(bytes / 2 ** 20);
  return { rss: megabytes(rss), heap: megabytes(heap) };
}

const measured: Memory[] = [];
/** After each minute, the last one included; five times in a shorter soak. */
const minutes = async () => {
  const samples = Math.max(5, Math.floor(seconds / 60));
  for (let i = 1; i <= samples; i++) {
    await delay(startedMs + (i * seconds * 1000) / samples - performance.now());
    measured.push(await memory());
  }
};

await Promise.all([
  minutes(),
  ...Array.from({ length: agents }, async (_, agent) => {
    const random = Random.fromSeed(agent);
    for (let round = 0; performance.now() < end; round++) await play(agent, round, random);
  }),
]);
const left = await memory();
const quantile = (q: number) => Math.round(turnMs.toSorted((a, b) => a - b)[Math.floor(q * (turnMs.length - 1))]! * 10) / 10;
process.stdout.write(
  `${JSON.stringify({ agents, seconds, ...counts, turn_ms: { p50: quantile(0.5), p95: quantile(0.95), most: quantile(1) }, memory_mb: measured, after: left })}\n`,
);
child.disconnect();
await pool.close();
