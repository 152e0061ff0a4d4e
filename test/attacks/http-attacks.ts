/** What every HTTP server of this package must withstand, whatever it serves. A server's own file names its route, a good body and how it refuses. */
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { request } from 'node:http';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { until } from '../transport/loopback.ts';
import { type AttackedServer, openConnections, peakGrowth, sendRaw } from './attacked-process.ts';

export interface HttpTarget {
  readonly server: () => AttackedServer;
  /** A route that takes JSON. */
  readonly path: string;
  /** Answered with 200. */
  readonly good: object;
  /** Besides `host` and `content-type`, an API key for example. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Statuses of the refusals. */
  readonly refusals: { readonly notJson: number; readonly wrongType: number };
}

export interface Answer {
  readonly status: number;
  readonly body: string;
}

const MEBIBYTE = 2 ** 20;
/** More than a held body and its text take, less than what the attacks would take unbounded. */
const BOUND_BYTES = 200 * MEBIBYTE;

/** A request with any headers; those of a browser's fetch could not be wrong enough. */
export async function ask(
  { server, path, headers = {} }: HttpTarget,
  body: string | Buffer,
  changes: Readonly<Record<string, string | null>> = {},
): Promise<Answer> {
  const sent = Object.entries({ 'content-type': 'application/json', ...headers, ...changes }).filter(
    (entry): entry is [string, string] => entry[1] !== null,
  );
  const asked = request(`${server().url}${path}`, { method: 'POST', headers: Object.fromEntries(sent), agent: false });
  // A server may refuse before it has read everything.
  asked.on('error', () => {});
  asked.end(body);
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return { status: response.statusCode!, body: await text(response).catch(() => '') };
}

export function withstandsHttpAttacks(target: HttpTarget): void {
  const { path, good, headers = {}, refusals } = target;
  const goodBody = JSON.stringify(good);
  const expectWell = async () => expect((await ask(target, goodBody)).status).toBe(200);
  const head = (length: number) =>
    [
      `POST ${path} HTTP/1.1`,
      'host: 127.0.0.1',
      'content-type: application/json',
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      `content-length: ${length}`,
      '',
      '',
    ].join('\r\n');

  it('refuses a page whose host name was made to point here, on every path', async () => {
    const { port } = target.server();
    for (const host of ['evil.example', `evil.example:${port}`, '127.0.0.1.evil.example', 'localhost.evil.example', '0.0.0.0'])
      expect({ host, status: (await ask(target, goodBody, { host })).status }).toEqual({ host, status: 403 });
    for (const line of ['host: evil.example', 'host:', 'host: 127.0.0.1@evil.example', 'host: evil.example\r\nx-forwarded-host: 127.0.0.1'])
      expect(await sendRaw(port, `GET /health HTTP/1.1\r\n${line}\r\nconnection: close\r\n\r\n`)).toMatch(/^HTTP\/1\.1 40[03] /);
    // A proxy's form of a request: the name in the first line is no better than that in the header.
    expect(await sendRaw(port, 'GET http://127.0.0.1/health HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n')).toMatch(
      /^HTTP\/1\.1 403 /,
    );
    // A proxy may have read the other one.
    const two = `host: 127.0.0.1\r\nHost: evil.example\r\n`;
    for (const connection of ['close', 'Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=='])
      expect(await sendRaw(port, `GET /ws HTTP/1.1\r\n${two}connection: ${connection}\r\n\r\n`)).toMatch(/^HTTP\/1\.1 400 /);
    for (const host of ['127.0.0.1', `localhost:${port}`, '[::1]']) expect((await ask(target, goodBody, { host })).status).toBe(200);
  });

  it('refuses what a page of another origin can send without being allowed to', async () => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonp',
      'text/plain; application/json',
      null,
    ])
      expect({ type, status: (await ask(target, goodBody, { 'content-type': type })).status }).toEqual({ type, status: refusals.wrongType });
    expect((await ask(target, goodBody, { 'content-type': 'Application/JSON; charset=utf-8' })).status).toBe(200);
  });

  it('cuts a body of 200 MB, announced or not', async () => {
    const grown = await peakGrowth(target.server(), async () => {
      expect((await ask(target, '', { 'content-length': String(200 * MEBIBYTE) })).status).toBe(413);
      const endless = request(`${target.server().url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        agent: false,
      });
      endless.on('error', () => {});
      const answer = once(endless, 'response') as Promise<[IncomingMessage]>;
      const piece = Buffer.alloc(MEBIBYTE, ' ');
      const refused = new AbortController();
      for (const event of ['response', 'close']) endless.once(event, () => refused.abort());
      for (let i = 0; i < 200 && !refused.signal.aborted; i++)
        if (!endless.write(piece)) await until(() => !endless.writableNeedDrain || refused.signal.aborted);
      expect((await answer)[0].statusCode).toBe(413);
      endless.destroy();
    });
    expect(grown).toBeLessThan(BOUND_BYTES);
    await expectWell();
  });

  it('never inflates a compressed body', async () => {
    // Inflated, these would be good.
    for (const [encoding, compress] of [
      ['gzip', gzipSync],
      ['deflate', deflateSync],
      ['br', brotliCompressSync],
    ] as const)
      expect((await ask(target, compress(goodBody), { 'content-encoding': encoding })).status).toBe(refusals.notJson);
    // Members one after the other are one body.
    const member = gzipSync(Buffer.alloc(10 * MEBIBYTE));
    const bomb = Buffer.concat(Array.from({ length: 30 }, () => member));
    const grown = await peakGrowth(target.server(), async () => {
      for (const encoding of ['gzip', 'deflate', 'br', 'gzip, gzip'])
        expect((await ask(target, bomb, { 'content-encoding': encoding })).status).toBe(refusals.notJson);
    });
    expect(grown).toBeLessThan(BOUND_BYTES);
  });

  it('refuses JSON that is deep, endless or cut', async () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    const quotes = `"${'\\"'.repeat(500_000)}`;
    for (const body of [deep, '['.repeat(1_000_000), quotes, `{"a":${deep}`, '{"__proto__":', '\0'.repeat(MEBIBYTE), goodBody.slice(0, -1)])
      expect((await ask(target, body)).status).toBe(refusals.notJson);
    await expectWell();
  });

  it('refuses JSON of too many lists or keys before it becomes values', async () => {
    for (const [body, excess] of [
      [`[${'[],'.repeat(2 ** 20)}[]]`, /has more than 1,048,576 lists, objects and keys/],
      [`{${Array.from({ length: 70_000 }, (_, i) => `"${i}":0`).join(',')}}`, /has an object of more than 65,536 keys/],
      [`{"a":${'['.repeat(1_000_000)}`, /nests lists and objects more than 64 levels deep/],
    ] as const) {
      const answer = await ask(target, body);
      expect(answer).toEqual({ status: refusals.notJson, body: expect.stringMatching(excess) });
    }
    await expectWell();
  });

  it('survives bytes that are not HTTP, and two requests dressed as one', async () => {
    const { port } = target.server();
    const start = `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n`;
    const attacks = [
      '\0\0\0\0\r\n\r\n',
      '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
      'GET\r\n\r\n',
      `${start}content-length: -5\r\n\r\n`,
      `${start}content-length: 5\r\ncontent-length: 6\r\n\r\n{}{}{}`,
      `${start}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`,
      `${start}transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n`,
      `${start}transfer-encoding: chunked\r\n\r\nzz\r\n`,
      `${start}x: ${'y'.repeat(100_000)}\r\n\r\n`,
      `${start}${'x: y\r\n'.repeat(5000)}\r\n`,
      `${start} folded: x\r\n\r\n`,
      `GET /${'a'.repeat(100_000)} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`,
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    ];
    for (const attack of attacks) expect(await sendRaw(port, attack)).not.toMatch(/^HTTP\/1\.1 (200|5)/m);
    await expectWell();
  });

  it('serves others while more clients than it takes requests send half a body each', async () => {
    await using _ = await openConnections(target.server().port, 1100, `${head(goodBody.length + 1)}${goodBody}`);
    expect((await ask(target, goodBody)).status).toBe(200);
  });
}
