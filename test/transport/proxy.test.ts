import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { describe, expect, test } from 'vitest';
import { ConfigError, PolicyError } from '../../src/core/errors.ts';
import { HttpEndpoint } from '../../src/transport/http-endpoint.ts';
import { proxyFor } from '../../src/transport/proxy.ts';
import { withTransport } from '../../src/transport/transport-settings.ts';
import { refusingUrl, sendJson } from './loopback.ts';
import { openPolicy } from '../../src/library/open-policy.ts';
import { CERTIFICATE, KEY } from './api-test-certificate.ts';

const proxied = (url: string, variables: Record<string, string>) => proxyFor(new URL(url), variables)?.origin ?? null;
const P = 'http://proxy.test:3128';

describe('proxyFor', () => {
  test.each<[string, Record<string, string>, string | null]>([
    ['http://api.test/v1', {}, null],
    ['http://api.test/v1', { HTTP_PROXY: P }, P],
    ['http://api.test/v1', { http_proxy: P, HTTP_PROXY: 'http://other' }, P],
    ['http://api.test/v1', { HTTPS_PROXY: P }, null],
    ['https://api.test/v1', { HTTPS_PROXY: P }, P],
    ['https://api.test/v1', { HTTP_PROXY: P }, null],
    ['https://api.test/v1', { ALL_PROXY: P }, P],
    ['http://api.test/v1', { all_proxy: P, http_proxy: '' }, null],
    ['http://api.test/v1', { HTTP_PROXY: 'proxy.test:3128' }, P],
    ['http://api.test/v1', { HTTP_PROXY: `${P}/` }, P],
    // A run starts servers on loopback itself.
    ...['http://127.0.0.1:8000', 'http://localhost:8000', 'http://[::1]:8000', 'http://0.0.0.0:8000', 'http://a.localhost'].map(
      (url): [string, Record<string, string>, null] => [url, { HTTP_PROXY: P, ALL_PROXY: P }, null],
    ),
  ])('%s with %j goes through %s', (url, variables, expected) => expect(proxied(url, variables)).toBe(expected));

  test.each<[string, string, boolean]>([
    ['http://api.test', '*', true],
    ['http://api.test', 'api.test', true],
    ['http://a.api.test', 'api.test', true],
    ['http://a.api.test', '.api.test', true],
    ['http://a.api.test', '*.api.test', true],
    ['http://api.test', 'other, API.test', true],
    ['http://notapi.test', 'api.test', false],
    ['http://api.test:8080', 'api.test:8080', true],
    ['http://api.test', 'api.test:8080', false],
    ['http://api.test', 'api.test:80', true],
    ['http://10.1.2.3', '10.0.0.0/8', true],
    ['http://11.1.2.3', '10.0.0.0/8', false],
    ['http://10.1.2.3', '10.1.2.3', true],
    ['http://110.1.2.3', '10.1.2.3', false],
    ['http://[fd00::1]', 'fd00::/8', true],
    ['http://[fd00::1]', '[fd00::1]', true],
    ['http://api.test', '', false],
    ['http://10.1.2.3', '10.0.0.0/99', false],
  ])('%s with NO_PROXY=%s goes straight: %s', (url, exceptions, isStraight) => {
    expect(proxied(url, { HTTP_PROXY: P, NO_PROXY: exceptions }) === null).toBe(isStraight);
    expect(proxied(url, { HTTP_PROXY: P, NO_PROXY: 'none', no_proxy: exceptions }) === null).toBe(isStraight);
  });

  test('keeps the credentials out of its text', () => {
    const proxy = proxyFor(new URL('http://api.test'), { HTTP_PROXY: 'http://me:s%40cret@proxy.test:3128' })!;
    expect(proxy.text).toBe('http://proxy.test:3128 of HTTP_PROXY');
    expect(Buffer.from(proxy.authorization!.slice('Basic '.length), 'base64').toString()).toBe('me:s@cret');
    expect(proxy.secrets).toContain('s@cret');
  });

  test.each(['socks5://proxy.test:1080', 'http://', 'ftp://me:secret@proxy.test'])(
    'refuses %s by the name of its variable, without a password',
    (value) => {
      const refused = () => proxied('http://api.test', { ALL_PROXY: value });
      expect(refused).toThrow(ConfigError);
      expect(refused).toThrow(/^ALL_PROXY must be the URL of an HTTP proxy/);
      expect(refused).not.toThrow(/secret/);
    },
  );
});

/** A forward proxy: answers plain requests itself, and connects every tunnel to `target`. */
async function forwardProxy({ target = null, status = 200 }: { target?: number | null; status?: number } = {}) {
  const seen: string[] = [];
  const sockets = new Set<Socket>();
  const note = ({ method, url, headers }: IncomingMessage) => seen.push(`${method} ${url} ${headers['proxy-authorization'] ?? '-'}`);
  const server = createServer((request, response) => {
    note(request);
    sendJson(response, status, { host: request.headers.host });
  });
  server.on('connect', (request, socket: Socket) => {
    note(request);
    sockets.add(socket);
    if (target === null) {
      socket.end(`HTTP/1.1 ${status === 200 ? 502 : status} no\r\n\r\n`);
      return;
    }
    const onward = connect(target, '127.0.0.1', () => socket.write('HTTP/1.1 200 ok\r\n\r\n'));
    sockets.add(onward);
    onward.pipe(socket).pipe(onward);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function ask(baseUrl: string, variables: Record<string, string>) {
  const endpoint = withTransport(
    { variables },
    () => new HttpEndpoint({ baseUrl, makeError: (message, options) => new PolicyError(message, options) }),
  );
  try {
    const { status, body } = await endpoint.request({ method: 'POST', path: '/chat', body: '{}', signal: AbortSignal.timeout(60_000) });
    return { status, body: body.toString() };
  } catch (error) {
    return error as PolicyError;
  } finally {
    await endpoint.close();
  }
}

describe('HttpEndpoint through a proxy', () => {
  test('sends a plain request whole, with the credentials of the proxy', async () => {
    await using proxy = await forwardProxy();
    const outcome = await ask('http://api.test:8080/v1', { HTTP_PROXY: `http://me:secret@${proxy.address}` });
    expect(outcome).toEqual({ status: 200, body: '{"host":"api.test:8080"}' });
    expect(proxy.seen).toEqual([`POST http://api.test:8080/v1/chat Basic ${Buffer.from('me:secret').toString('base64')}`]);
  });

  test('opens a tunnel for https', async () => {
    await using proxy = await forwardProxy();
    const outcome = await ask('https://api.test/v1', { HTTPS_PROXY: `http://me:secret@${proxy.address}` });
    expect(proxy.seen).toEqual([expect.stringMatching(/^CONNECT api\.test:443 Basic /)]);
    expect((outcome as PolicyError).message).toMatch(
      new RegExp(`^https://api.test/v1/chat did not answer: through the proxy http://${proxy.address} of HTTPS_PROXY: .*502`),
    );
  });

  test('a policy behind https is played through the tunnel', async () => {
    const trusted = getCACertificates('default');
    setDefaultCACertificates([...trusted, CERTIFICATE]);
    const api = createTlsServer({ cert: CERTIFICATE, key: KEY }, (_, response) => {
      sendJson(response, 200, { choices: [{ message: { content: 'Paris' }, finish_reason: 'stop' }], data: [{ id: 'm' }] });
    }).listen(0, '127.0.0.1');
    await once(api, 'listening');
    try {
      await using proxy = await forwardProxy({ target: (api.address() as AddressInfo).port });
      const variables = { HTTPS_PROXY: `http://me:secret@${proxy.address}` };
      await using policy = await openPolicy({ baseUrl: 'https://api.test/v1', model: 'm', clientType: 'chat' }, { variables });
      const { signal } = new AbortController();
      await using lease = await policy.client.lease(signal);
      const request = { prompt: [{ role: 'user', content: 'capital?' }], maxNewTokens: 5, sampling: { temperature: 1, topP: 1 }, stop: [], signal };
      expect(await lease.generate(request as never)).toMatchObject({ text: 'Paris' });
      expect(proxy.seen[0]).toMatch(/^CONNECT api\.test:443 Basic /);
    } finally {
      setDefaultCACertificates(trusted);
      api.closeAllConnections();
      api.close();
    }
  });

  test('the two ends of a tunnel exchange bytes', async () => {
    // Not TLS: the handshake reaches the target and fails there.
    const target = createServer().listen(0, '127.0.0.1');
    const reached = once(target, 'clientError');
    target.on('clientError', (_, socket) => socket.destroy());
    await once(target, 'listening');
    await using proxy = await forwardProxy({ target: (target.address() as AddressInfo).port });
    expect(await ask('https://api.test/v1', { HTTPS_PROXY: `http://${proxy.address}` })).toBeInstanceOf(PolicyError);
    await reached;
    target.close();
  });

  test('an unreachable proxy and one that refuses are named without their passwords', async () => {
    const unreachable = (await refusingUrl()).replace('http://', '');
    const down = (await ask('http://api.test/v1', { HTTP_PROXY: `http://me:secret@${unreachable}` })) as PolicyError;
    expect(down).toMatchObject({ retryable: true, message: expect.stringContaining(`through the proxy http://${unreachable} of HTTP_PROXY: `) });
    expect(down.message).toContain('ECONNREFUSED');
    await using proxy = await forwardProxy({ status: 407 });
    const refused = (await ask('http://api.test/v1', { HTTP_PROXY: `http://me:secret@${proxy.address}` })) as PolicyError;
    const said = `did not answer: the proxy http://${proxy.address} of HTTP_PROXY requires a user and a password in its URL (407)`;
    expect(refused).toMatchObject({ retryable: false, message: `http://api.test/v1/chat ${said}` });
    const tunnel = (await ask('https://api.test/v1', { HTTPS_PROXY: proxy.address })) as PolicyError;
    expect(tunnel).toMatchObject({ retryable: false, message: `https://api.test/v1/chat ${said.replace('HTTP_', 'HTTPS_')}` });
    expect(`${down.stack}${refused.stack}`).not.toContain('secret');
  });

  test('asks loopback and NO_PROXY straight', async () => {
    await using proxy = await forwardProxy();
    await using server = await forwardProxy();
    const variables = { HTTP_PROXY: `http://${proxy.address}`, ALL_PROXY: `http://${proxy.address}` };
    expect(await ask(`http://${server.address}`, variables)).toMatchObject({ status: 200 });
    expect(await ask('http://api.invalid', { ...variables, NO_PROXY: '.invalid' })).toBeInstanceOf(PolicyError);
    expect(proxy.seen).toEqual([]);
  });
});
