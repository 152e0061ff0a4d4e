import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ExecutionError } from '../../src/core/errors.ts';
import { type CodeExecutor, openExecutor } from '../../src/execution/index.ts';
import { executionApp, type ExecutionAppOptions } from '../../src/server/execution-app.ts';

let executor: CodeExecutor;
beforeAll(async () => {
  executor = await openExecutor('wasi', { workers: 1 });
}, 60_000);
afterAll(() => executor.close());

type Changes = Partial<ExecutionAppOptions> & { readonly headers?: Readonly<Record<string, string>>; readonly signal?: AbortSignal };

async function post(path: string, body: unknown, { headers = {}, signal, ...options }: Changes = {}) {
  const app = executionApp({ executor, host: '127.0.0.1', onFailure: () => {}, ...options });
  const sent = { 'content-type': 'application/json', host: '127.0.0.1', ...headers };
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const response = await app.request(path, { method: 'POST', headers: sent, body: text, ...(signal === undefined ? {} : { signal }) });
  return { status: response.status, body: (await response.json()) as object };
}

describe('executionApp', () => {
  it('runs a program, with its limits and seed', async () => {
    expect(await post('/run', { code: 'def f(a): return a[::-1]', calls: ["'314'", '7'] })).toEqual({
      status: 200,
      body: { kind: 'ran', calls: [{ repr: "'413'" }, { error: 'TypeError', message: "'int' object is not subscriptable" }] },
    });
    const order = (hash_seed: number) => post('/run', { code: "def f(): return {'a', 'b', 'c', 'd'}", calls: [''], hash_seed });
    expect((await order(1)).body).toEqual((await order(1)).body);
    expect((await order(1)).body).not.toEqual((await order(2)).body);
    const limits = { seconds: 2, memory_bytes: 64 * 2 ** 20, output_bytes: 100, repr_length: 10 };
    expect((await post('/run', { code: 'while True: pass', calls: ['1'], limits: { seconds: 0.2 } })).body).toMatchObject({ kind: 'timeout' });
    expect((await post('/run', { code: "def f(a): print('x' * 200)", calls: ['1'], limits })).body).toMatchObject({ kind: 'output_too_long' });
    expect((await post('/run', { code: "def f(a): return 'x' * 10", calls: ['1'], limits })).body).toMatchObject({
      calls: [{ error: 'ReprTooLong' }],
    });
  });

  it('ends a request whose calls take too long together', async () => {
    const calls = Array.from({ length: 256 }, (_, i) => String(i));
    expect(await post('/run', { code: 'def f(a):\n  while True: pass', calls }, { maxSeconds: 0.02 })).toEqual({
      status: 422,
      body: { detail: 'The job took longer than 0.6 seconds in all; send fewer calls at a time, or set a lower limit of seconds' },
    });
    expect((await post('/run', { code: 'def f(a): return a', calls: ['1'] })).body).toEqual({ kind: 'ran', calls: [{ repr: '1' }] });
  });

  it('reads a program', async () => {
    const request = {
      code: 'import os.path\ndef g(a):\n  return a  # no',
      banned: ['os.path'],
      banned_rule: 'any_spelling',
      rewrites: ['comments', ['g', 'f']],
    };
    expect(await post('/analyse', request)).toMatchObject({
      status: 200,
      body: { syntax_error: null, entry: 'g', banned: ['os.path'], plain: false, code: expect.stringContaining('def f(a):') as string },
    });
  });

  it('says what serves', async () => {
    const response = await executionApp({ executor, host: '127.0.0.1', onFailure: () => {} }).request('/health', { headers: { host: '127.0.0.1' } });
    expect(await response.json()).toEqual({ status: 'ok', executor: 'wasi', isolation: 'wasm', python: '3.12.0', pending: 0 });
  });

  it.each([
    ['{', /^The body is not JSON/],
    [[], /^The body must be an object$/],
    [{ code: 'x' }, /^The body must have the key "calls"$/],
    [{ code: 1, calls: [] }, /^code must be a string$/],
    [{ code: 'x', calls: [1] }, /^calls\[0\] must be a string$/],
    [{ code: 'x', calls: [], seed: 1 }, /^The body must not have the key "seed"$/],
    [{ code: 'x', calls: Array.from({ length: 257 }, () => '') }, /^calls must have at most 256 items$/],
    [{ code: 'x', calls: [], hash_seed: -1 }, /^hash_seed must be >= 0$/],
    [{ code: 'x', calls: [], limits: { seconds: 0.001 } }, /^limits\.seconds must be >= 0.01$/],
    [{ code: 'x', calls: [], limits: { seconds: 11 } }, /^limits\.seconds must be at most 10 on this server, got 11$/],
    [{ code: 'x', calls: [], limits: { memory_bytes: 1e9 } }, /^limits\.memory_bytes must be at most 268435456 on this server, got 1000000000$/],
    [{ code: 'x', calls: ['', ''], limits: { repr_length: 2 ** 24 } }, /^calls times limits.repr_length must be at most/],
  ])('refuses %j', async (request, detail) => {
    const answer = await post('/run', request);
    expect(answer).toEqual({ status: 422, body: { detail: expect.stringMatching(detail) as string } });
  });

  it('refuses other hosts, other content types and more jobs than it takes', async () => {
    const job = { code: 'def f(): return 1', calls: [''] };
    expect((await post('/run', job, { headers: { host: 'evil.example' } })).status).toBe(403);
    expect((await post('/run', job, { headers: { 'content-type': 'text/plain' } })).status).toBe(415);
    const app = executionApp({ executor, host: '127.0.0.1', onFailure: () => {}, maxPending: 1 });
    const ask = (code: string) =>
      app.request('/run', {
        method: 'POST',
        headers: { host: '127.0.0.1', 'content-type': 'application/json' },
        body: JSON.stringify({ code, calls: [''], limits: { seconds: 0.5 } }),
      });
    const statuses = (await Promise.all([ask('while True: pass'), ask('def f(): return 2'), ask('def f(): return 3')])).map(({ status }) => status);
    expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 503, 503]);
    expect((await ask(job.code)).status).toBe(200);
  });

  it('answers 503 where no worker starts, and tells its owner', async () => {
    const failures: unknown[] = [];
    const broken: CodeExecutor = {
      capabilities: executor.capabilities,
      run: () => Promise.reject(new ExecutionError('No worker starts. Install it.')),
      analyse: () => Promise.reject(new Error('a bug with a secret')),
      close: () => Promise.resolve(),
    };
    const changes = { executor: broken, onFailure: (error: unknown) => failures.push(error) };
    expect(await post('/run', { code: 'x', calls: [''] }, changes)).toEqual({ status: 503, body: { detail: 'No worker starts. Install it.' } });
    expect(await post('/analyse', { code: 'x' }, changes)).toEqual({ status: 500, body: { detail: 'Internal Server Error' } });
    expect(failures).toHaveLength(2);
  });
});
