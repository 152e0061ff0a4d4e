/** Requests byte by byte, as no HTTP client would send them, to `vf-serve retrieve`, `vf-serve policy` and `vf-view`. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeEvaluation } from '../viewing/written-runs.ts';
import { type AttackedServer, sendRaw, startServer } from './attacked-process.ts';

interface Target {
  readonly start: () => Promise<AttackedServer>;
  readonly path: string;
  /** Null for a route that is read by GET. */
  readonly good: string | null;
}

const folder = mkdtempSync(join(tmpdir(), 'vf-raw-requests-'));
afterAll(() => rmSync(folder, { recursive: true }));

const TARGETS: Readonly<Record<string, Target>> = {
  'vf-serve retrieve': {
    start: () => startServer(['retrieve', '--corpus', 'fact-world']),
    path: '/retrieve',
    good: JSON.stringify({ queries: ['mayor'], topk: 1 }),
  },
  'vf-serve policy': {
    start: () => startServer(['policy', '--threads', '1']),
    path: '/v1/completions',
    good: JSON.stringify({ prompt: [300, 301], max_tokens: 1 }),
  },
  'vf-view': {
    start: () => {
      writeEvaluation(join(folder, 'runs', 'good'), [{ group: 'a' }]);
      return startServer([join(folder, 'runs')], { command: 'vf-view' });
    },
    path: '/api/runs',
    good: null,
  },
};

const LAST = 'connection: close';
const lines = (...all: readonly string[]) => `${all.join('\r\n')}\r\n\r\n`;

describe.each(Object.entries(TARGETS))('%s under raw requests', (_, { start, path, good }) => {
  let server: AttackedServer;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const method = good === null ? 'GET' : 'POST';
  const body = good ?? '';
  const typed = good === null ? [] : ['content-type: application/json', `content-length: ${body.length}`];
  /** A request that is good but for what is added. */
  const request = (...more: readonly string[]) => `${lines(`${method} ${path} HTTP/1.1`, 'host: 127.0.0.1', ...typed, ...more)}${body}`;
  const chunked = (...chunks: readonly string[]) =>
    `${lines(`${method} ${path} HTTP/1.1`, 'host: 127.0.0.1', 'content-type: application/json', LAST, 'transfer-encoding: chunked')}${chunks.join('')}`;
  const size = (text: string) => text.length.toString(16);

  /** Waits for the end: a client that ends first is taken for one that has left. */
  const send = (bytes: string | Buffer) => sendRaw(server.port, bytes, { waits: true });
  const isWell = async () => expect(await send(request(LAST))).toMatch(/^HTTP\/1\.1 200 /);

  it.each<[string, () => string | Buffer]>([
    ['a host with a user', () => request(LAST).replace('host: 127.0.0.1', 'host: evil@127.0.0.1')],
    ['a host that begins like this one', () => request(LAST).replace('host: 127.0.0.1', 'host: 127.0.0.1.evil.example')],
    ['a host with a path', () => request(LAST).replace('host: 127.0.0.1', 'host: 127.0.0.1/evil')],
    ['a host with two ports', () => request(LAST).replace('host: 127.0.0.1', 'host: evil.example:80:80')],
    ['two hosts', () => request(LAST, 'host: evil.example')],
    ['two hosts, the foreign one first', () => request(LAST).replace('host: 127.0.0.1', 'host: evil.example\r\nhost: 127.0.0.1')],
    ['no host', () => request(LAST).replace('host: 127.0.0.1\r\n', '')],
    ['a host of 60,000 characters', () => request(LAST).replace('host: 127.0.0.1', `host: ${'a'.repeat(60_000)}`)],
    ['a host in full-width digits', () => Buffer.from(request(LAST).replace('host: 127.0.0.1', 'host: １２７.0.0.1'), 'utf8')],
    ['a host in decimal', () => request(LAST).replace('host: 127.0.0.1', 'host: 2130706433')],
    ['a host in octal', () => request(LAST).replace('host: 127.0.0.1', 'host: 0177.0.0.1')],
    ['the address of every interface', () => request(LAST).replace('host: 127.0.0.1', 'host: 0.0.0.0')],
    ['a name with a dot at its end', () => request(LAST).replace('host: 127.0.0.1', 'host: localhost.')],
    ['a foreign host in the request line', () => request(LAST).replace(path, `http://evil.example${path}`).replace('host: 127', 'host: evil.127')],
    ['a space before the colon', () => request(LAST).replace('host: ', 'host : ')],
    ['a header that is folded', () => request('x: a\r\n b', LAST)],
    ['a header without a name', () => request(': x', LAST)],
    ['a header with a NUL', () => request('x: a\0b', LAST)],
    ['a line feed alone as the end of a line', () => request('x: a\ny: b\rz: c', LAST)],
    ['10,000 headers', () => request(...Array.from({ length: 10_000 }, (_each, i) => `x-${i}: y`), LAST)],
    ['a header of a megabyte', () => request(`x: ${'y'.repeat(2 ** 20)}`, LAST)],
    ['a request line of a megabyte', () => request(LAST).replace(path, `${path}?${'y'.repeat(2 ** 20)}`)],
    ['a length and chunks', () => chunked('0\r\n\r\n').replace(LAST, `${LAST}\r\ncontent-length: 5`)],
    ['two lengths', () => `${lines(`POST ${path} HTTP/1.1`, 'host: 127.0.0.1', 'content-length: 2', 'content-length: 3', LAST)}{}`],
    ['a list of lengths', () => `${lines(`POST ${path} HTTP/1.1`, 'host: 127.0.0.1', 'content-length: 2, 2', LAST)}{}`],
    ['a length with a sign', () => `${lines(`POST ${path} HTTP/1.1`, 'host: 127.0.0.1', 'content-length: +2', LAST)}{}`],
    ['a length in hexadecimal', () => `${lines(`POST ${path} HTTP/1.1`, 'host: 127.0.0.1', 'content-length: 0x2', LAST)}{}`],
    ['a length beyond 64 bits', () => `${lines(`POST ${path} HTTP/1.1`, 'host: 127.0.0.1', 'content-length: 99999999999999999999', LAST)}{}`],
    ['another encoding than chunks', () => `${lines(`POST ${path} HTTP/1.1`, 'host: 127.0.0.1', 'transfer-encoding: gzip', LAST)}{}`],
    ['chunks twice', () => chunked('0\r\n\r\n').replace('chunked', 'chunked, chunked')],
    ['chunks that are misspelt', () => chunked('0\r\n\r\n').replace(': chunked', ': xchunked')],
    ['a chunk with a negative size', () => chunked('-1\r\n\r\n')],
    ['a chunk larger than it says', () => chunked('1\r\nabc\r\n0\r\n\r\n')],
    ['a chunk with an extension of 100,000 bytes', () => chunked(`1;${'x'.repeat(100_000)}\r\n{\r\n0\r\n\r\n`)],
    ['trailers without end', () => chunked(`0\r\n${'x: y\r\n'.repeat(20_000)}\r\n`)],
    ['HTTP/2 without TLS', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'],
    ['an unknown version', () => request(LAST).replace('HTTP/1.1', 'HTTP/9.9')],
    ['version 0.9', () => `GET ${path}\r\n\r\n`],
    ['an unknown method', () => request(LAST).replace(method, 'FETCH')],
    ['a method in small letters', () => request(LAST).replace(method, method.toLowerCase())],
    ['CONNECT', () => lines('CONNECT 127.0.0.1:22 HTTP/1.1', 'host: 127.0.0.1:22')],
    ['TRACE', () => lines(`TRACE ${path} HTTP/1.1`, 'host: 127.0.0.1', LAST)],
    ['a NUL in the path', () => request(LAST).replace(path, `${path}\0`)],
    ['a line break in the path', () => request(LAST).replace(path, `${path}%0d%0ax:y`)],
    ['a path that climbs', () => request(LAST).replace(path, '/../../../../etc/passwd')],
    ['a path that climbs in escapes', () => request(LAST).replace(path, '/%2e%2e/%2e%2e/etc/passwd')],
    ['a path of another route behind a double slash', () => request(LAST).replace(path, `/${path}`)],
    ['an expectation that nobody knows', () => request('expect: 200-ok', LAST)],
    ['TLS', () => Buffer.from('16030100c8010000c40303', 'hex')],
    ['a megabyte of zeros', () => Buffer.alloc(2 ** 20)],
    ['SSH', () => 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['a request of ZeroMQ', () => Buffer.from('ff00000000000000017f03014e554c4c', 'hex')],
  ])('refuses %s', async (_attack, bytes) => {
    // No answer of success, and no failure of the server's own.
    expect(await send(bytes())).not.toMatch(/^HTTP\/1\.1 ([2357])/m);
    await isWell();
  });

  it.each<[string, () => string, RegExp]>([
    ['HTTP/1.0', () => request(LAST).replace('HTTP/1.1', 'HTTP/1.0'), /^HTTP\/1\.1 200 /],
    ['an expectation of a continuation', () => request('expect: 100-continue', LAST), good === null ? / 200 / : /^HTTP\/1\.1 100 .*HTTP\/1\.1 200 /s],
    ['a range', () => request('range: bytes=0-0,5-,-1', LAST), /^HTTP\/1\.1 200 /],
    ['ranges without end', () => request(`range: bytes=${'0-,'.repeat(2000)}0-`, LAST), /^HTTP\/1\.1 200 /],
    ['an upgrade to a WebSocket', () => request('connection: upgrade', 'upgrade: websocket', 'sec-websocket-version: 13', LAST), /^HTTP\/1\.1 200 /],
    [
      'an upgrade to HTTP/2',
      () => request('connection: upgrade, http2-settings', 'upgrade: h2c', 'http2-settings: AAMAAABk', LAST),
      /^HTTP\/1\.1 200 /,
    ],
    ['another method in a header', () => request('x-http-method-override: DELETE', LAST), /^HTTP\/1\.1 200 /],
    ['another path in a header', () => request('x-original-url: /etc/passwd', 'x-rewrite-url: /etc/passwd', LAST), /^HTTP\/1\.1 200 /],
    ['another host in headers of proxies', () => request('x-forwarded-host: evil.example', 'forwarded: host=evil.example', LAST), /^HTTP\/1\.1 200 /],
    ['a page of another origin that asks for permission', () => request('origin: https://evil.example', LAST), /^(?!.*access-control)/is],
  ])('answers in spite of %s', async (_attack, bytes, expected) => {
    const answer = await send(bytes());
    expect(answer).toMatch(expected);
    expect(answer).not.toMatch(/^HTTP\/1\.1 [35]|evil\.example|root:/m);
    await isWell();
  });

  // How many may wait for their answers at once: test/server/unread.test.ts.
  it('serves others while a client sends 10,000 requests at once and reads nothing', async () => {
    const socket = connect(server.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.pause();
    await once(socket, 'connect');
    socket.write(request().repeat(10_000));
    await isWell();
    await isWell();
    socket.destroy();
    await isWell();
    expect(server.child.exitCode).toBeNull();
  });

  it('takes two requests in one packet as two', async () => {
    const answer = await send(request() + request(LAST));
    expect(answer.match(/HTTP\/1\.1 200 /g)).toHaveLength(2);
  });

  it('reads a body in chunks of a byte as any other', async () => {
    const chunks = Array.from(body, (each) => `${size(each)};x=y\r\n${each}\r\n`);
    expect(await send(chunked(...chunks, '0\r\nx: y\r\n\r\n'))).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('never reads a second request from the body of one that it refuses', async () => {
    const inner = lines(`GET /health HTTP/1.1`, 'host: 127.0.0.1', LAST);
    for (const type of ['text/plain', 'application/json'])
      expect(
        (
          await sendRaw(
            server.port,
            `${lines(`PUT ${path} HTTP/1.1`, 'host: 127.0.0.1', `content-type: ${type}`, `content-length: ${inner.length}`, LAST)}${inner}`,
          )
        ).match(/HTTP\/1\.1 /g),
      ).toHaveLength(1);
    await isWell();
  });

  it('does not inflate a body', async () => {
    const zipped = gzipSync(body === '' ? '{}' : body);
    const head = lines(
      `POST ${path} HTTP/1.1`,
      'host: 127.0.0.1',
      'content-type: application/json',
      'content-encoding: gzip',
      `content-length: ${zipped.length}`,
      LAST,
    );
    expect(await send(Buffer.concat([Buffer.from(head), zipped]))).toMatch(/^HTTP\/1\.1 4/);
  });
});
