/**
 * CPU time of the vLLM client per turn, over trajectories of 2 to 128 turns: the cost of a turn must depend on its new tokens, not on the
 * history. The peer is a client that serialises and parses the whole prompt each turn. Both use a loopback server in its own process.
 * `node --conditions=vf-search-source scripts/bench/client-turns.ts [--trajectories 40] [--json]`.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';
import { request as undiciRequest } from 'undici';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { VllmTokensClient } from '../../src/clients/vllm-tokens.ts';
import { measurement, report } from './measurement.ts';

const TURNS = 128;
const SAMPLED_TOKENS = 100;
const OBSERVATION_TOKENS = 200;
const NEW_TOKENS = SAMPLED_TOKENS + OBSERVATION_TOKENS;
const signal = new AbortController().signal;
const { values: flags } = parseArgs({
  options: { trajectories: { type: 'string', default: '40' }, json: { type: 'boolean' }, server: { type: 'boolean' } },
});

type Play = (url: string) => Promise<{ begin(): Promise<void>; turn(prompt: Int32Array): Promise<void>; close(): Promise<void> }>;

async function measure(trajectories: number): Promise<void> {
  const server = fork(import.meta.filename, ['--server']);
  const [url] = (await once(server, 'message')) as [string];
  const ids = Int32Array.from({ length: TURNS * NEW_TOKENS }, (_, i) => 1000 + ((i * 7919) % 150_000));
  try {
    await cpuPerTurn(ours, url, ids, Math.min(10, trajectories));
    const own = await cpuPerTurn(ours, url, ids, trajectories);
    const naive = await cpuPerTurn(whole, url, ids, Math.max(4, trajectories / 4));
    if (!flags.json) print(own, naive);
    report([
      measurement({ what: 'vLLM client, CPU per turn and 1,000 tokens of history', unit: 'µs', against: 'whole prompt through JSON', bar: 0.1 }, [
        { ours: slope(own), peer: slope(naive) },
      ]),
    ]);
  } finally {
    await stop(server);
  }
}

/** CPU microseconds of turn i: the median over consecutive trajectories on one client. [TURNS] */
async function cpuPerTurn(open: Play, url: string, ids: Int32Array, trajectories: number): Promise<number[]> {
  const policy = await open(url);
  const costs: number[][] = Array.from({ length: TURNS }, () => []);
  for (let n = 0; n < trajectories; n++) {
    await policy.begin();
    for (let turn = 0; turn < TURNS; turn++) {
      const before = process.cpuUsage();
      await policy.turn(ids.subarray(0, (turn + 1) * NEW_TOKENS));
      const { user, system } = process.cpuUsage(before);
      costs[turn]!.push(user + system);
    }
  }
  await policy.close();
  return costs.map((values) => values.toSorted((x, y) => x - y)[values.length >> 1]!);
}

const ours: Play = async (url) => {
  const versions = new PolicyVersions({ version: 0, model: 'm' });
  const client = new VllmTokensClient({ baseUrls: [url], versions, capabilities: { maxModelLen: 1e6, tokenizerHash: null, logProbsMode: 'raw' } });
  const sampling = { temperature: 1, topP: 1 };
  let lease = await client.lease(signal);
  return {
    async begin() {
      await lease[Symbol.asyncDispose]();
      lease = await client.lease(signal);
    },
    async turn(prompt) {
      await lease.generate({ prompt, sampling, maxNewTokens: SAMPLED_TOKENS, stop: ['</search>'], signal });
    },
    close: () => client.close(),
  };
};

/** Sends and receives the whole prompt as JSON, as a plain client does. */
const whole: Play = async (url) => ({
  begin: async () => {},
  async turn(prompt) {
    const fields = { model: 'm', max_tokens: SAMPLED_TOKENS, temperature: 1, logprobs: 0, return_token_ids: true, prompt: [...prompt] };
    const { body } = await undiciRequest(`${url}/v1/completions`, {
      method: 'POST',
      body: JSON.stringify(fields),
      headers: { 'content-type': 'application/json' },
    });
    await body.json();
  },
  close: async () => {},
});

function print(own: readonly number[], naive: readonly number[]): void {
  const write = (line: string) => process.stdout.write(`${line}\n`);
  write(`turns   history tokens   ours, CPU µs/turn   whole prompt through JSON   ratio`);
  for (let end = 2; end <= TURNS; end *= 2) {
    const [mine, theirs] = [mean(own.slice(end / 2, end)), mean(naive.slice(end / 2, end))];
    const cells = [String(end).padStart(5), String(end * NEW_TOKENS).padStart(16), mine.toFixed(0).padStart(19), theirs.toFixed(0).padStart(27)];
    write(`${cells.join(' ')} ${(mine / theirs).toFixed(2).padStart(7)}`);
  }
  write(`a turn's ${NEW_TOKENS} new tokens at turn 2 cost ours ${mean(own.slice(1, 4)).toFixed(0)} µs`);
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Least-squares slope over the turns, per 1000 tokens of history. */
function slope(perTurn: readonly number[]): number {
  const [meanTurn, meanCost] = [(perTurn.length - 1) / 2, mean(perTurn)];
  const covariance = perTurn.reduce((sum, cost, turn) => sum + (turn - meanTurn) * (cost - meanCost), 0);
  const variance = perTurn.reduce((sum, _, turn) => sum + (turn - meanTurn) ** 2, 0);
  return (covariance / variance / NEW_TOKENS) * 1000;
}

/** Answers like vLLM 0.32, including the echoed prompt; runs in its own process so that its CPU time does not count. */
async function serve(): Promise<void> {
  const count = SAMPLED_TOKENS;
  const ids = Array.from({ length: count }, (_, i) => 100 + i);
  const tokens = ids.map(() => ' a');
  const head = JSON.stringify({ id: 'cmpl-0', object: 'text_completion', model: 'm' }).slice(0, -1);
  const logprobs = {
    text_offset: ids.map((_, i) => 2 * i),
    token_logprobs: ids.map((id) => -id / 300),
    tokens,
    top_logprobs: ids.map(() => ({ ' a': -1.5 })),
  };
  const choice = JSON.stringify({ index: 0, text: tokens.join(''), logprobs, finish_reason: 'length', stop_reason: null, token_ids: ids }).slice(
    0,
    -1,
  );
  const answer = (body: Buffer): Buffer => {
    const start = body.indexOf('"prompt":[') + 10;
    const prompt = body.subarray(start, body.indexOf(']', start));
    return Buffer.concat([Buffer.from(`${head},"choices":[${choice},"prompt_token_ids":[`), prompt, Buffer.from(']}],"usage":{"prompt_tokens":1}}')]);
  };
  const server = createServer((incoming, response) => {
    void readBody(incoming).then((body) => response.writeHead(200, { 'content-type': 'application/json' }).end(answer(body)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  process.send!(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

async function readBody(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

async function stop(server: ChildProcess): Promise<void> {
  server.kill();
  await once(server, 'exit');
}

if (flags.server) await serve();
else await measure(Number(flags.trajectories));
