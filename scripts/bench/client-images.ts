/**
 * CPU time of the vLLM client per turn of an episode that shows a page with every turn: the cost of a turn must depend on the new page, not on those before it. The
 * peer sends every page again with every turn, as a client without memory must. Both use a loopback server in its own process, which counts the uploads.
 * `node --conditions=vf-search-source scripts/bench/client-images.ts [--trajectories 20] [--json]`.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { request as undiciRequest } from 'undici';
import type { TokenLease } from '../../src/clients/policy-client.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { VllmTokensClient } from '../../src/clients/vllm-tokens.ts';
import type { ImageRef } from '../../src/core/message.ts';
import { TokenBuffer } from '../../src/core/token-buffer.ts';
import { RunImages } from '../../src/files/run-images.ts';
import { measurement, median, report } from './measurement.ts';

/** The last turn has eight pages in its history. */
const TURNS = 9;
/** A page of visual-rag: 401,408 pixels in squares of 28, about 80 kB as PNG. */
const PAGE = { mediaType: 'image/png', width: 728, height: 532 } as const;
const PAGE_TOKENS = (PAGE.width / 28) * (PAGE.height / 28);
const PAGE_BYTES = 80_000;
const SAMPLED_TOKENS = 60;
const TEXT_TOKENS = 40;
const [START, PAD, END] = [151_652, 151_655, 151_653];
const PROMISED_MS = 2;
const { signal } = new AbortController();
const { values: flags } = parseArgs({
  options: { trajectories: { type: 'string', default: '20' }, json: { type: 'boolean' }, server: { type: 'boolean' } },
});

type Turn = (buffer: TokenBuffer) => Promise<void>;

async function measure(trajectories: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'vf-bench-images-'));
  const server = fork(import.meta.filename, ['--server']);
  const [url] = (await once(server, 'message')) as [string];
  const store = new RunImages();
  await store.keepIn(folder);
  const versions = new PolicyVersions({ version: 0, model: 'm' });
  const capabilities = { maxModelLen: 32_768, tokenizerHash: null, logProbsMode: 'raw' } as const;
  const client = new VllmTokensClient({ baseUrls: [url], versions, capabilities, images: store });
  try {
    const pairs: { readonly own: number[]; readonly naive: number[] }[] = [];
    for (let n = -3; n < trajectories; n++) {
      await using lease = await client.lease(signal);
      const own = await costs(ours(lease), await newPages(store));
      const naive = await costs(again(url, store), await newPages(store));
      // The first ones compile the code.
      if (n >= 0) pairs.push({ own, naive });
    }
    await assertOneUpload(url);
    if (!flags.json) print(pairs);
    const last = TURNS - 1;
    const what = 'vLLM client, 8 pages in history: CPU per turn';
    report([
      measurement(
        { what, unit: 'ms', against: 'every page sent again', bar: 0.5 },
        pairs.map(({ own, naive }) => ({ ours: own[last]!, peer: naive[last]! })),
      ),
      measurement(
        { what, unit: 'ms', against: 'one page in history', bar: 1.5 },
        pairs.map(({ own }) => ({ ours: own[last]!, peer: own[1]! })),
      ),
      measurement(
        { what, unit: 'ms', against: 'the promise', bar: 1 },
        pairs.map(({ own }) => ({ ours: own[last]!, peer: PROMISED_MS })),
      ),
    ]);
  } finally {
    await client.close();
    await stop(server);
    rmSync(folder, { recursive: true });
  }
}

/** Pages that no server has seen. */
function newPages(store: RunImages): Promise<ImageRef[]> {
  return Promise.all(Array.from({ length: TURNS }, () => store.put(randomBytes(PAGE_BYTES), PAGE)));
}

/** CPU milliseconds of each turn. [TURNS] */
async function costs(turn: Turn, pages: readonly ImageRef[]): Promise<number[]> {
  const buffer = new TokenBuffer();
  const spent: number[] = [];
  for (const [i, page] of pages.entries()) {
    const image = { ...page, offset: TEXT_TOKENS + 1, length: PAGE_TOKENS };
    const text = Array.from({ length: TEXT_TOKENS }, (_, at) => 1000 + ((i * 7919 + at) % 150_000));
    buffer.appendGiven(
      i === 0 ? 'prompt' : 'observation',
      Int32Array.from([...text, START, ...Array.from({ length: PAGE_TOKENS }, () => PAD), END]),
      [image],
    );
    const before = process.cpuUsage();
    await turn(buffer);
    const { user, system } = process.cpuUsage(before);
    spent.push((user + system) / 1000);
    buffer.appendGiven(
      'observation',
      Int32Array.from({ length: SAMPLED_TOKENS }, (_, at) => 100 + at),
    );
  }
  return spent;
}

const ours =
  (lease: TokenLease): Turn =>
  async ({ ids: prompt, images }) => {
    await lease.generate({ prompt, images, sampling: { temperature: 1, topP: 1 }, maxNewTokens: SAMPLED_TOKENS, stop: [], signal });
  };

const again =
  (url: string, store: RunImages): Turn =>
  async ({ ids, images }) => {
    const compact: number[] = [];
    let at = 0;
    for (const { offset, length } of images) {
      compact.push(...ids.subarray(at, offset + 1));
      at = offset + length;
    }
    compact.push(...ids.subarray(at));
    const parts = [];
    for (const image of images) {
      const bytes = Buffer.from(await store.get(image));
      parts.push({ type: 'image_url', url: `data:image/png;base64,${bytes.toString('base64')}` });
    }
    const fields = { model: 'm', token_ids: compact, content_parts: parts, sampling_params: { max_tokens: SAMPLED_TOKENS, logprobs: 0 } };
    const { body } = await undiciRequest(`${url}/inference/v1/generate`, {
      method: 'POST',
      body: JSON.stringify(fields),
      headers: { 'content-type': 'application/json' },
    });
    await body.json();
  };

/** Throws if a page that has a name was sent twice. */
async function assertOneUpload(url: string): Promise<void> {
  const { body } = await undiciRequest(`${url}/uploads`);
  const most = Math.max(...Object.values((await body.json()) as Record<string, number>));
  if (most !== 1) throw new Error(`Expected one upload for each page, got ${most}`);
}

function print(pairs: readonly { readonly own: readonly number[]; readonly naive: readonly number[] }[]): void {
  process.stdout.write('pages in history   ours, CPU ms/turn   every page sent again   ratio\n');
  for (let turn = 0; turn < TURNS; turn++) {
    const [own, naive] = [median(pairs.map((pair) => pair.own[turn]!)), median(pairs.map((pair) => pair.naive[turn]!))];
    const cells = [String(turn).padStart(16), own.toFixed(2).padStart(19), naive.toFixed(2).padStart(23), (own / naive).toFixed(2).padStart(7)];
    process.stdout.write(`${cells.join(' ')}\n`);
  }
}

/** Answers like vLLM 0.32, with the expanded prompt and the places of its pages; runs in its own process so that its CPU time does not count. */
async function serve(): Promise<void> {
  const uploads: Record<string, number> = {};
  const ids = Array.from({ length: SAMPLED_TOKENS }, (_, i) => 100 + i);
  const content = ids.map((id) => ({
    token: ' a',
    logprob: -id / 300,
    bytes: [32, 97],
    top_logprobs: [{ token: ' a', logprob: -id / 300, bytes: [32, 97] }],
  }));
  const choice = { index: 0, text: ' a'.repeat(SAMPLED_TOKENS), token_ids: ids, logprobs: { content }, finish_reason: 'length', stop_reason: null };
  const answer = (body: string): string => {
    const { token_ids: given, content_parts: parts } = JSON.parse(body) as {
      token_ids: number[];
      content_parts: { url: string | null; uuid?: string }[];
    };
    for (const { url, uuid } of parts) if (uuid !== undefined && url !== null) uploads[uuid] = (uploads[uuid] ?? 0) + 1;
    const prompt: number[] = [];
    const places = [];
    for (const id of given) {
      if (id !== PAD) {
        prompt.push(id);
        continue;
      }
      places.push({ offset: prompt.length, length: PAGE_TOKENS });
      for (let i = 0; i < PAGE_TOKENS; i++) prompt.push(PAD);
    }
    const usage = { prompt_tokens: prompt.length, completion_tokens: SAMPLED_TOKENS };
    return JSON.stringify({
      request_id: 'generate-tokens-0',
      usage,
      prompt_token_ids: prompt,
      mm_placeholders: { image: places },
      choices: [choice],
    });
  };
  const server = createServer((incoming, response) => {
    const answered = (body: string) => (incoming.url === '/uploads' ? JSON.stringify(uploads) : answer(body));
    void readBody(incoming).then((body) => response.writeHead(200, { 'content-type': 'application/json' }).end(answered(body)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  process.send!(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

async function readBody(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

async function stop(server: ChildProcess): Promise<void> {
  server.kill();
  await once(server, 'exit');
}

if (flags.server) await serve();
else await measure(Number(flags.trajectories));
