/**
 * The gateway next to other projects' in one run, the same scripted server behind all: CPU of the gateway's process per call, in conversations of ten turns, and the time that it adds to a
 * call. Ours over a chat API stands against theirs without token ids, ours by token ids (which renders, splices and keeps them) against theirs with the ids of the server. The
 * interception of verifiers is driven alone over its evaluation client; its training client needs vLLM's generate route and the tokenizer of a model from the hub.
 * `npm run bench -- gateway [--sessions 40] [--runs 3]`
 */
import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Agent, request as undiciRequest } from 'undici';
import { cpuMs } from '../proof/watch-process.ts';
import { measurement, type Pair, report } from './measurement.ts';
import { peerVenv } from './peer-venv.ts';

const { values: flags } = parseArgs({
  options: { sessions: { type: 'string', default: '40' }, runs: { type: 'string', default: '3' }, json: { type: 'boolean' } },
});
const SESSIONS = Number(flags.sessions);
const TURNS = 10;
const CONCURRENCY = 8;
const HEAD = 'peers/gateway';
const pool = new Agent({ connections: CONCURRENCY });

interface Address {
  readonly baseURL: string;
  readonly apiKey: string;
}

interface Subject extends AsyncDisposable {
  readonly cpuMs: () => number;
  readonly open: () => Promise<Address>;
}

async function post(url: string, body: string, key = 'none'): Promise<Record<string, unknown>> {
  const response = await undiciRequest(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body,
    dispatcher: pool,
  });
  const text = await response.body.text();
  if (response.statusCode >= 300) throw new Error(`${url}: ${response.statusCode} ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}

function running(child: ChildProcess): AsyncDisposable & { readonly cpuMs: () => number } {
  return {
    cpuMs: () => cpuMs(child.pid!),
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await once(child, 'close');
    },
  };
}

async function firstLine(child: ChildProcess): Promise<string> {
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
  return line;
}

async function ours(kind: 'chat' | 'tokens', upstream: string): Promise<Subject> {
  const child = fork(join(import.meta.dirname, 'gateway-process.ts'), [kind, upstream], {
    execArgv: ['--expose-gc', '--conditions=vf-search-source'],
  });
  const [url] = (await once(child, 'message')) as [string];
  return {
    ...running(child),
    async open() {
      const { base_url: baseURL, api_key: apiKey } = (await post(`${url}/sessions`, '{}')) as { base_url: string; api_key: string };
      return { baseURL, apiKey };
    },
  };
}

async function rllm(withIds: boolean, upstream: string): Promise<Subject> {
  const bin = peerVenv('rllm-model-gateway', ['rllm-model-gateway==0.1.0']);
  const port = 20_000 + (process.pid % 20_000);
  const child = spawn(join(bin, 'python'), [join(import.meta.dirname, HEAD, 'rllm.py'), upstream, String(port), String(withIds)], {
    stdio: 'ignore',
  });
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; ; tries++) {
    const isUp = await fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isUp) break;
    if (tries > 1200 || child.exitCode !== null) throw new Error('rllm-model-gateway did not start.');
    await delay(100);
  }
  return {
    ...running(child),
    async open() {
      const { session_id: id } = (await post(`${url}/sessions`, '{}')) as { session_id: string };
      return { baseURL: `${url}/sessions/${id}/v1`, apiKey: 'none' };
    },
  };
}

/** The least that a gateway in Node could cost. */
async function bareProxy(upstream: string): Promise<Subject> {
  const child = spawn(process.execPath, [join(import.meta.dirname, HEAD, 'bare-proxy.mjs'), upstream], { stdio: ['ignore', 'pipe', 'inherit'] });
  const baseURL = `http://127.0.0.1:${await firstLine(child)}/v1`;
  return { ...running(child), open: async () => ({ baseURL, apiKey: 'none' }) };
}

async function interception(upstream: string): Promise<Subject> {
  const python = execFileSync(join(import.meta.dirname, '../interop/install.sh'), ['verifiers'], { encoding: 'utf8' }).trim();
  const child = spawn(python, [join(import.meta.dirname, HEAD, 'interception.py'), upstream, '20000'], { stdio: ['ignore', 'pipe', 'ignore'] });
  const { base_url: baseURL, keys } = JSON.parse(await firstLine(child)) as { base_url: string; keys: string[] };
  return { ...running(child), open: async () => ({ baseURL, apiKey: keys.pop()! }) };
}

const RESULT = 'heron grey river stone night water small light bird old wing field morning letter house '.repeat(10);

/** Plays conversations, and gives the CPU milliseconds of the subject per call. */
async function cpuPerCall(subject: Subject): Promise<number> {
  const before = subject.cpuMs();
  let left = SESSIONS;
  const player = async () => {
    while (left-- > 0)
      await converse(await subject.open(), async (address, body) => post(`${address.baseURL}/chat/completions`, body, address.apiKey));
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, player));
  return (subject.cpuMs() - before) / (SESSIONS * TURNS);
}

type Call = (address: Address, body: string) => Promise<Record<string, unknown>>;

async function converse(address: Address, call: Call): Promise<void> {
  const messages: object[] = [{ role: 'user', content: 'Where is the heron?' }];
  for (let turn = 0; turn < TURNS; turn++) {
    const answer = (await call(address, JSON.stringify({ model: 'scripted', messages }))) as unknown as { choices: [{ message: object }] };
    messages.push(answer.choices[0].message, { role: 'user', content: `${turn} ${RESULT}` });
  }
}

/** Milliseconds that a call takes longer than the same call without the gateway. [calls] */
async function addedMs(subject: Subject, upstream: string): Promise<readonly number[]> {
  const added: number[] = [];
  for (let i = 0; i < SESSIONS; i++) {
    await converse(await subject.open(), async (address, body) => {
      const begun = performance.now();
      await post(`${upstream}/chat/completions`, body);
      const direct = performance.now();
      const answer = await post(`${address.baseURL}/chat/completions`, body, address.apiKey);
      added.push(performance.now() - direct - (direct - begun));
      return answer;
    });
  }
  return added;
}

const quantile = (values: readonly number[], q: number) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(q * values.length))]!;

const server = spawn(process.execPath, [join(import.meta.dirname, HEAD, 'scripted-vllm.mjs')], { stdio: ['ignore', 'pipe', 'inherit'] });
process.on('exit', () => server.kill());
const upstream = `http://127.0.0.1:${await firstLine(server)}/v1`;
const rllmName = 'rllm-model-gateway 0.1.0';
const rivals = [
  { what: 'over a chat API', own: 'chat', name: rllmName, bar: 0.3, peer: () => rllm(false, upstream) },
  { what: 'by token ids', own: 'tokens', name: rllmName, bar: 0.3, peer: () => rllm(true, upstream) },
  { what: 'over a chat API', own: 'chat', name: 'a bare proxy', bar: null, peer: () => bareProxy(upstream) },
  { what: 'over a chat API', own: 'chat', name: 'verifiers 0.4.0', bar: null, peer: () => interception(upstream) },
] as const;
const measured = [];
for (const { what, own, name, bar, peer } of rivals) {
  await using mine = await ours(own, upstream);
  await using theirs = await peer();
  // Node compiles code as it is used, which takes some 2,000 calls.
  for (let run = 0; run < 5; run++) for (const subject of [mine, theirs]) await cpuPerCall(subject);
  const pairs: Pair[] = [];
  for (let run = 0; run < Number(flags.runs); run++) pairs.push({ ours: await cpuPerCall(mine), peer: await cpuPerCall(theirs) });
  measured.push(measurement({ what: `gateway ${what}, CPU per call`, unit: 'ms', against: name, bar }, pairs));
  const [added, peerAdded] = [await addedMs(mine, upstream), await addedMs(theirs, upstream)];
  for (const [label, q] of [
    ['p50', 0.5],
    ['p95', 0.95],
  ] as const)
    measured.push(
      measurement({ what: `gateway ${what}, added to a call, ${label}`, unit: 'ms', against: name, bar: null }, [
        { ours: quantile(added, q), peer: quantile(peerAdded, q) },
      ]),
    );
}
report(measured);
server.kill();
await pool.close();
