/** Hubs that attack who downloads from them: bodies without end, other content than listed, pages that lead elsewhere. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fetchHubSplit, parseHubName } from '../../src/data/hub.ts';
import { HubConnection } from '../../src/data/hub-connection.ts';
import { loopback, sendJson } from '../transport/loopback.ts';

const COMMIT = '0123456789012345678901234567890123456789';
const TOKEN = 'hf_the-token-of-the-user';
const TEXT = '{"question": "q", "golden_answers": ["a"]}\n';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-attacks-hub-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const gitId = (text: string) =>
  createHash('sha1')
    .update(`blob ${Buffer.byteLength(text)}\0${text}`)
    .digest('hex');

/** A hub with one small file, which it sends as `send` does. */
function hub(send: (response: ServerResponse) => void, list?: (request: IncomingMessage, response: ServerResponse) => void) {
  return loopback((request, response) => {
    const path = request.url!.split('?')[0]!;
    if (path.includes('/paths-info/'))
      return list === undefined
        ? sendJson(response, 200, [{ type: 'file', path: 'train.jsonl', size: TEXT.length, oid: gitId(TEXT) }])
        : list(request, response);
    response.setHeader('etag', `"${gitId(TEXT)}"`);
    if (request.headers.range === 'bytes=0-0')
      return response.writeHead(206, { 'content-range': `bytes 0-0/${TEXT.length}`, 'content-length': 1 }).end('{');
    return send(response);
  });
}

const download = (url: string) =>
  fetchHubSplit(parseHubName(`org/name@${COMMIT}`)!, 'train', { env: { HF_ENDPOINT: url, HF_TOKEN: TOKEN }, cacheDir: folder, retryDelayMs: 1 });

/** Nothing of it is kept. */
function expectNothingKept(): void {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() || entry.isSymbolicLink());
  expect(files.map(({ name }) => name)).toEqual([]);
}

describe('hubs that attack', () => {
  it('stops at the announced size of a body without end, and asks once', async () => {
    let sent = 0;
    await using server = await hub((response) => {
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, 97))) sent += 65_536;
      };
      response.on('drain', more);
      more();
    });
    await expect(download(server.url)).rejects.toThrow(/^The hub sends more than the 43 bytes that it announced of train\.jsonl\.$/);
    expect(server.requests.filter((request) => request.startsWith('GET') && request.includes('train.jsonl')).length).toBeLessThan(4);
    expect(sent).toBeLessThan(64 * 2 ** 20);
    expectNothingKept();
  });

  it('refuses a small file of the right size whose content is not that of its Git object id', async () => {
    await using server = await hub((response) => response.end(TEXT.replace('a', 'b')));
    await expect(download(server.url)).rejects.toThrow(/^train\.jsonl must have the Git object id [0-9a-f]{40}, but the hub sent [0-9a-f]{40}\.$/);
    expectNothingKept();
  });

  it('reads no list without end', async () => {
    await using server = await hub(
      (response) => response.end(TEXT),
      (_, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        const more = () => {
          while (!response.destroyed && response.write(' '.repeat(2 ** 20)));
        };
        response.on('drain', more);
        more();
      },
    );
    await expect(download(server.url)).rejects.toThrow(/more than 16,777,216 bytes/);
  });

  it.each([
    ['lists that take gigabytes', `[${'[],'.repeat(2_700_000)}[]]`.repeat(2), /^The hub's answer has more than 5,242,880 lists, objects and keys\.$/],
    ['a list of a hundred levels', '['.repeat(100), /^The hub's answer nests lists and objects more than 64 levels deep\.$/],
  ])('parses no answer of %s', async (_, text, problem) => {
    await using server = await hub(
      (response) => response.end(TEXT),
      (__, response) => response.writeHead(200, { 'content-type': 'application/json' }).end(text),
    );
    await expect(download(server.url)).rejects.toThrow(problem);
  });

  it('sends the token to the hub alone, whatever its pages link to', async () => {
    const seen: (string | undefined)[] = [];
    await using other = await loopback(({ headers }, response) => {
      seen.push(headers.authorization);
      sendJson(response, 200, []);
    });
    const own: (string | undefined)[] = [];
    await using server = await loopback(({ headers }, response) => {
      own.push(headers.authorization);
      sendJson(response, 200, [{ type: 'file', path: 'a', size: 1, oid: COMMIT }], { link: `<${other.url}/more>; rel="next"` });
    });
    const connection = new HubConnection({ type: 'model', name: 'org/name' }, { env: { HF_ENDPOINT: server.url, HF_TOKEN: TOKEN } });
    await connection.call('its files', async (parameters) => {
      const { listFiles } = await import('@huggingface/hub');
      for await (const _ of listFiles({ ...parameters, repo: connection.repository, revision: COMMIT }));
    });
    expect(own).toEqual([`Bearer ${TOKEN}`]);
    expect(seen).toEqual([undefined]);
  });
});
