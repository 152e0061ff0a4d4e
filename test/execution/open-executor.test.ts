import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CodeExecutor, DEFAULT_LIMITS, type ExecutionLimits, openExecutor } from '../../src/execution/index.ts';

const signal = new AbortController().signal;
let executor: CodeExecutor;

beforeAll(async () => {
  executor = await openExecutor('wasi', { workers: 1 });
}, 60_000);
afterAll(() => executor.close());

const run = (code: string, calls: readonly string[], { hashSeed = 0, ...limits }: Partial<ExecutionLimits> & { hashSeed?: number } = {}) =>
  executor.run({ code, calls, hashSeed, limits: { ...DEFAULT_LIMITS, ...limits } }, { signal });

describe('openExecutor', () => {
  it('gives the repr of each value, and the exception of each call that raises', async () => {
    const result = await run("def f(a):\n  a = a[::-1]\n  return a + '3'", ["'314'", '7', "'', 2"]);
    expect(result).toEqual({
      kind: 'ran',
      calls: [
        { repr: "'4133'" },
        { error: 'TypeError', message: "'int' object is not subscriptable" },
        { error: 'TypeError', message: 'f() takes 1 positional argument but 2 were given' },
      ],
    });
  });

  it('runs the module again for each call', async () => {
    const result = await run('n = [0]\ndef f(a):\n  n[0] += a\n  return n[0]', ['1', '1', '1']);
    expect(result).toEqual({ kind: 'ran', calls: [{ repr: '1' }, { repr: '1' }, { repr: '1' }] });
  });

  it('orders sets by the seed of hashes alone', async () => {
    const code = "def f(a): return {'b', 'a', 'c', 'zeta'}";
    const results = [];
    for (const hashSeed of [1, 2, 1]) results.push(await run(code, ['0'], { hashSeed }));
    expect(results[0]).toEqual(results[2]);
    expect(results[0]).not.toEqual(results[1]);
  });

  it('ends a loop at its deadline, and the next program runs', async () => {
    expect(await run('def f(a):\n  while True: pass', ['1'], { seconds: 0.3 })).toMatchObject({ kind: 'timeout' });
    expect(await run('def f(a): return a', ['1'])).toEqual({ kind: 'ran', calls: [{ repr: '1' }] });
  });

  it('reads a program without running it', async () => {
    const facts = await executor.analyse('import os.path\ndef g(a):\n  """doc"""\n  return g(a)  # again', { banned: ['os.path', 'sys'], signal });
    expect(facts).toEqual({
      syntaxError: null,
      functions: ['g'],
      entry: 'g',
      imports: ['import os.path'],
      banned: ['os.path'],
      code: 'import os.path\ndef f(a):\n    return f(a)',
      plain: false,
    });
  });
});
