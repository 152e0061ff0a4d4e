import type { Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { CancelledError, ConfigError, PolicyError, TimeoutError, type VfErrorOptions } from '../../src/core/errors.ts';
import { HttpEndpoint, type HttpEndpointOptions, httpErrorText, statusOptions } from '../../src/transport/http-endpoint.ts';
import { type Loopback, loopback, readText, refusingUrl, until } from './loopback.ts';

const forever = new AbortController().signal;
const makeError = (message: string, options: VfErrorOptions) => new PolicyError(message, options);

function connect(url: string, more: Partial<HttpEndpointOptions> = {}): HttpEndpoint & AsyncDisposable {
  const endpoint = new HttpEndpoint({ baseUrl: url, makeError, ...more });
  return Object.assign(endpoint, { [Symbol.asyncDispose]: () => endpoint.close() });
}

async function failure(promise: Promise<unknown>): Promise<PolicyError> {
  return promise.then(
    () => expect.unreachable('the request succeeded'),
    (error: unknown) => error as PolicyError,
  );
}

const echo = () =>
  loopback(async (request, response) => {
    const body = await readText(request);
    response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers, body }));
  });

async function echoed(server: Loopback, baseUrl: string, more: Partial<HttpEndpointOptions>, path = '/x', body?: string) {
  await using endpoint = connect(baseUrl.replace('SERVER', server.url.slice('http://'.length)), more);
  const response = await endpoint.request({
    method: body === undefined ? 'GET' : 'POST',
    path,
    signal: forever,
    ...(body === undefined ? {} : { body }),
  });
  return JSON.parse(response.body.toString()) as { method: string; url: string; headers: Record<string, string>; body: string };
}

describe('HttpEndpoint', () => {
  test('sends body, headers and the joined path', async () => {
    await using server = await echo();
    const got = await echoed(server, 'http://SERVER/v1/', { headers: { Authorization: 'Bearer k', 'X-A': 'b' } }, '/completions', '{"é":1}');
    expect(got).toMatchObject({ method: 'POST', url: '/v1/completions', body: '{"é":1}' });
    expect(got.headers).toMatchObject({ authorization: 'Bearer k', 'x-a': 'b', 'content-type': 'application/json' });
  });

  test('sends the query of the base URL with every path', async () => {
    await using server = await echo();
    expect((await echoed(server, 'http://SERVER/v1?api-version=2', {}, '/models')).url).toBe('/v1/models?api-version=2');
    expect((await echoed(server, 'http://SERVER?a=1', {}, '/models?b=2')).url).toBe('/models?b=2&a=1');
  });

  test('sends user and password of the URL as basic authorization', async () => {
    await using server = await echo();
    const { headers } = await echoed(server, 'http://us%40er:p%C3%A9@SERVER', {});
    expect(Buffer.from(headers['authorization']!.replace('Basic ', ''), 'base64').toString()).toBe('us@er:pé');
  });

  test('refuses a reply, plain or an event of a stream, that is nested too deep or has too many lists, before it is parsed', async () => {
    const deep = '['.repeat(65);
    const replies = [` \n${deep}`, `data: {}\n\ndata: ${deep}\n`, `{"error":${deep}`];
    await using server = await loopback((_, response) => response.end(replies.shift()));
    await using endpoint = connect(server.url);
    while (replies.length > 0) {
      const error = await failure(endpoint.request({ method: 'GET', path: '/x', signal: forever }));
      expect([error.message, error.retryable]).toEqual([
        `${server.url}/x returned JSON that nests lists and objects more than 64 levels deep`,
        false,
      ]);
    }
  });

  test('lets bytes and pages pass', async () => {
    const deep = '['.repeat(100);
    await using server = await loopback((_, response) => response.end(deep));
    await using endpoint = connect(server.url, { isBinary: true });
    expect((await endpoint.request({ method: 'GET', path: '/x', signal: forever })).body.toString()).toBe(deep);
    await using page = await loopback((_, response) => response.end(`<script>${deep}`));
    await using reader = connect(page.url);
    expect((await reader.request({ method: 'GET', path: '/x', signal: forever })).status).toBe(200);
  });

  test('returns any status with headers and body', async () => {
    await using server = await loopback((_, response) => response.writeHead(503, { 'retry-after': '7' }).end('busy'));
    await using endpoint = connect(server.url);
    const { status, headers, body } = await endpoint.request({ method: 'GET', path: '/', signal: forever });
    expect([status, headers['retry-after'], body.toString()]).toEqual([503, '7', 'busy']);
  });

  test('keeps connections alive and never opens more than allowed', async () => {
    let open = 0;
    let most = 0;
    await using server = await loopback((_, response) => {
      most = Math.max(most, ++open);
      setTimeout(() => {
        open--;
        response.end('ok');
      }, 1);
    });
    await using endpoint = connect(server.url, { connections: 3 });
    await Promise.all(Array.from({ length: 20 }, () => endpoint.request({ method: 'POST', path: '/', body: '{}', signal: forever })));
    expect([server.requests.length, most, await server.connections()]).toEqual([20, 3, 3]);
  });

  test('a refused connection is a retryable error of the boundary without the password', async () => {
    const url = (await refusingUrl()).replace('http://', 'http://user:hunter22@');
    await using endpoint = connect(url);
    const error = await failure(endpoint.request({ method: 'GET', path: '/v1?key=hunter33', signal: forever }));
    expect(error).toBeInstanceOf(PolicyError);
    expect(error.retryable).toBe(true);
    expect(error.message).toMatch(/^http:\S+ did not answer: .*ECONNREFUSED/);
    expect(error.message + endpoint.url).not.toMatch(/hunter/);
  });

  test.each([
    ['before the response', (socket: Socket) => socket.destroy()],
    ['inside the body', (socket: Socket) => (socket.write('HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"a"'), socket.destroySoon())],
    ['with garbage', (socket: Socket) => socket.end('SSH-2.0-OpenSSH\r\n\r\n')],
  ])('a connection that ends %s is a retryable error', async (_, end: (socket: Socket) => unknown) => {
    await using server = await loopback((request) => void end(request.socket));
    await using endpoint = connect(server.url);
    const error = await failure(endpoint.request({ method: 'POST', path: '/', body: '{}', signal: forever }));
    expect(error).toBeInstanceOf(PolicyError);
    expect(error.retryable).toBe(true);
    expect(error.cause).toBeInstanceOf(Error);
  });

  test.each([
    ['announced', true],
    ['unannounced', false],
  ])('a response beyond the bound is refused while it arrives, %s', async (_, announced) => {
    await using server = await loopback((_request, response) => {
      response.writeHead(200, announced ? { 'content-length': '2000' } : {});
      response.write('x'.repeat(announced ? 10 : 2000));
    });
    await using endpoint = connect(server.url, { maxResponseBytes: 1000 });
    const error = await failure(endpoint.request({ method: 'GET', path: '/', signal: forever }));
    expect(error.message).toMatch(/more than 1,000 bytes/);
    expect([error.retryable, error.status]).toEqual([false, 200]);
    await server.dropped();
  });

  test('an abort rejects at once and frees the socket', async () => {
    let arrived!: () => void;
    const arrival = new Promise<void>((resolve) => (arrived = resolve));
    await using server = await loopback(() => arrived());
    await using endpoint = connect(server.url);
    const controller = new AbortController();
    const waiting = failure(endpoint.request({ method: 'POST', path: '/', body: '{}', signal: controller.signal }));
    await arrival;
    const reason = new TimeoutError('too late', { retryable: true });
    controller.abort(reason);
    expect(await waiting).toBe(reason);
    await server.dropped();
  });

  test('an abort of a queued request leaves the running one alone', async () => {
    let respond!: () => void;
    const arrival = new Promise<void>((arrived) => {
      respond = arrived;
    });
    let finish!: () => void;
    await using server = await loopback((_, response) => {
      finish = () => response.end('first');
      respond();
    });
    await using endpoint = connect(server.url, { connections: 1 });
    const first = endpoint.request({ method: 'GET', path: '/1', signal: forever });
    const controller = new AbortController();
    const second = failure(endpoint.request({ method: 'GET', path: '/2', signal: controller.signal }));
    await arrival;
    controller.abort();
    expect(await second).toBeInstanceOf(CancelledError);
    finish();
    expect((await first).body.toString()).toBe('first');
    expect(server.requests).toEqual(['GET /1']);
  });

  test('close cancels what is under way, refuses what comes later, and may be called twice', async () => {
    await using server = await loopback(() => {});
    const endpoint = connect(server.url);
    const waiting = failure(endpoint.request({ method: 'GET', path: '/', signal: forever }));
    await endpoint.close();
    await endpoint.close();
    expect(await waiting).toBeInstanceOf(CancelledError);
    expect(await failure(endpoint.request({ method: 'GET', path: '/', signal: forever }))).toBeInstanceOf(CancelledError);
  });

  test('a server that closes idle connections costs no failed request', async () => {
    await using server = await loopback((request, response) => {
      response.end('ok');
      request.socket.end();
    });
    await using endpoint = connect(server.url);
    for (let i = 0; i < 5; i++) {
      expect((await endpoint.request({ method: 'GET', path: '/', signal: forever })).status).toBe(200);
      await until(async () => (await server.connections()) === 0);
    }
  });

  test.each(['localhost:8000', 'ftp://host/', '', 'http://'])('refuses the base URL %j in one line', (baseUrl) => {
    expect(() => new HttpEndpoint({ baseUrl, makeError })).toThrow(ConfigError);
  });

  test.each(['http://127.0.0.1:99999', 'https://a b/', 'http://[::1'])('does not blame the beginning of %j', (baseUrl) => {
    expect(() => new HttpEndpoint({ baseUrl, makeError })).toThrow(/^The URL ".*" has an invalid host or port. Ports go up to 65535/s);
  });

  test('refuses a header value with a line break without showing it', () => {
    const headers = { Authorization: 'Bearer hunter22\n' };
    const build = () => new HttpEndpoint({ baseUrl: 'http://127.0.0.1:1', headers, makeError });
    expect(build).toThrow(/header Authorization/);
    expect(build).not.toThrow(/hunter22/);
  });

  test('a body is sent with its length, not in chunks', async () => {
    let length: string | undefined;
    await using server = await loopback((request, response) => {
      length = request.headers['content-length'];
      response.end();
    });
    await using endpoint = connect(server.url);
    await endpoint.request({ method: 'POST', path: '/', body: Buffer.from('12345'), signal: forever });
    expect(length).toBe('5');
  });
});

describe('httpErrorText', () => {
  test('leaves no part of a credential that the end of the quote cuts through {any place of the cut}', async () => {
    const headers = { authorization: 'Bearer sk-0123456789abcdef', 'x-team': 'search' };
    await using endpoint = connect('http://user:pa55w0rd@h/v1', { headers });
    for (let before = 150; before < 210; before++) {
      const body = `${'x'.repeat(before)} Bearer sk-0123456789abcdef pa55w0rd ${Buffer.from('user:pa55w0rd').toString('base64')} search`;
      const said = httpErrorText('POST', endpoint.url, 401, body, endpoint.hide);
      expect(said).not.toMatch(/sk-0|pa55|dXNl/);
    }
    expect(httpErrorText('POST', endpoint.url, 401, 'no search, no key', endpoint.hide)).toBe('[POST] http://h/v1: 401 no search, no key');
  });

  test('shows method, URL without secrets, status and the head of the body on one line', () => {
    expect(httpErrorText('POST', 'http://u:p@h/v1', 500, 'Internal\n\tServer\u001b[31m Error')).toBe(
      '[POST] http://***@h/v1: 500 Internal Server [31m Error',
    );
    expect(httpErrorText('GET', 'http://h/', 404, Buffer.alloc(0))).toBe('[GET] http://h/: 404');
    expect(httpErrorText('GET', 'http://h/', 500, 'x'.repeat(5000))).toHaveLength('[GET] http://h/: 500 '.length + 200);
    expect(httpErrorText('GET', 'http://h/', 500, Buffer.from('é'.repeat(5000)))).toHaveLength('[GET] http://h/: 500 '.length + 200);
  });
});

describe('statusOptions', () => {
  test.each([
    [400, false],
    [401, false],
    [404, false],
    [408, true],
    [422, false],
    [429, true],
    [500, true],
    [501, false],
    [529, true],
    [503, true],
  ])('%i retryable: %s', (status, retryable) => expect(statusOptions({ status, headers: {} })).toEqual({ status, retryable }));

  test('carries Retry-After', () => {
    expect(statusOptions({ status: 429, headers: { 'retry-after': '1' } })).toEqual({ status: 429, retryable: true, retryAfterMs: 1000 });
  });

  test('finds the wait for a rate limit in the body too, but not that of another failure', () => {
    const body = Buffer.from('{"error":{"message":"Please try again in 20s"}}');
    expect(statusOptions({ status: 429, headers: {}, body })).toEqual({ status: 429, retryable: true, retryAfterMs: 20_000 });
    expect(statusOptions({ status: 500, headers: {}, body })).toEqual({ status: 500, retryable: true });
  });
});
