import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { type CodeExecutor, DEFAULT_LIMITS, type ExecutionLimits, openExecutor } from '../../src/execution/index.ts';

const signal = new AbortController().signal;
let executor: CodeExecutor;
beforeAll(async () => {
  executor = await openExecutor('wasi', { workers: 1, cacheBytes: 0 });
}, 60_000);
afterAll(() => executor.close());

const run = (code: string, limits: Partial<ExecutionLimits> = {}, hashSeed = 0) =>
  executor.run({ code, calls: ['1'], hashSeed, limits: { ...DEFAULT_LIMITS, seconds: 20, ...limits } }, { signal });

/** Runs a script in a Node of its own. */
function script(body: string) {
  const index = join(import.meta.dirname, '../../src/execution/index.ts');
  const text = `
    import { DEFAULT_LIMITS, openExecutor } from ${JSON.stringify(index)};
    const signal = new AbortController().signal;
    const executor = await openExecutor('wasi', { workers: 1 });
    const run = async (code, seconds = 20) => {
      const result = await executor.run({ code, calls: ['1'], hashSeed: 0, limits: { ...DEFAULT_LIMITS, seconds } }, { signal });
      console.log(JSON.stringify(result));
    };
    ${body}`;
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module-typescript', '-e', text], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { status, stderr, lines: stdout.trim().split('\n') };
}

describe('WasiExecutor', () => {
  it('keeps the process alive until a job has its result, also while an interpreter starts again', () => {
    const { status, stderr, lines } = script(`
      await run('while True: pass', 0.3);
      await run('def f(a): return a');
      await run('def f(a): print("x" * 10 ** 7)');
      await run('def f(a): return a + 1');`);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(lines.map((line) => line.slice(0, 40))).toEqual([
      '{"kind":"timeout","detail":"The job ran ',
      '{"kind":"ran","calls":[{"repr":"1"}]}',
      '{"kind":"output_too_long","detail":"The ',
      '{"kind":"ran","calls":[{"repr":"2"}]}',
    ]);
  });

  it('lets the process end while it is open and idle', () => {
    expect(script("await run('def f(a): return a');")).toMatchObject({ status: 0, lines: ['{"kind":"ran","calls":[{"repr":"1"}]}'] });
  });

  it('gives an interpreter as much memory as the job says', async () => {
    const code = 'def f(a): return len(bytearray(100_000_000))';
    expect(await run(code)).toMatchObject({ kind: 'ran', calls: [{ error: 'MemoryError' }] });
    expect(await run(code, { memoryBytes: 192 * 2 ** 20 })).toEqual({ kind: 'ran', calls: [{ repr: '100000000' }] });
  });

  it('shows a program a clock and random bytes that follow from the seed alone', async () => {
    const code = 'import time, os, random\ndef f(a): return time.time(), time.perf_counter(), os.urandom(8), random.random()';
    const [first, again, other] = [await run(code), await run(code), await run(code, {}, 5)];
    expect(again).toEqual(first);
    expect(other).not.toEqual(first);
  });

  it('refuses limits and seeds that it cannot keep', async () => {
    for (const limits of [
      { seconds: 0 },
      { seconds: NaN },
      { seconds: 1e9 },
      { memoryBytes: 1000 },
      { memoryBytes: 2 ** 33 },
      { outputBytes: -1 },
      { reprLength: 0.5 },
    ])
      await expect(run('def f(a): return a', limits)).rejects.toThrow(/^limits\.\w+ must be an? /);
    for (const seed of [-1, 0.5, 2 ** 32]) await expect(run('def f(a): return a', {}, seed)).rejects.toBeInstanceOf(ConfigError);
  });
});
