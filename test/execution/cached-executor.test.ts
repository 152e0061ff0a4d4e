import { describe, expect, it } from 'vitest';
import { CachedExecutor } from '../../src/execution/cached-executor.ts';
import { type CodeExecutor, DEFAULT_LIMITS, type ExecutionJob, type ExecutionResult } from '../../src/execution/index.ts';

const signal = new AbortController().signal;

/** Answers every call with its text, and loops forever on `loop`. */
class EchoExecutor implements CodeExecutor {
  readonly capabilities = { name: 'none', isolation: 'none', python: '3.12.0' } as const;
  readonly jobs: ExecutionJob[] = [];
  analysed = 0;

  run(job: ExecutionJob): Promise<ExecutionResult> {
    this.jobs.push(job);
    if (job.calls.every((call) => call === 'loop')) return Promise.resolve({ kind: 'timeout', detail: 'late' });
    return Promise.resolve({
      kind: 'ran',
      calls: job.calls.map((call) => (call === 'loop' ? { error: 'timeout', message: 'late' } : { repr: call })),
    });
  }

  analyse(code: string) {
    this.analysed += 1;
    return Promise.resolve({ syntaxError: null, functions: [], entry: null, imports: [], banned: [], code, plain: true });
  }

  close = () => Promise.resolve();
}

const job = (calls: readonly string[], over: Partial<ExecutionJob> = {}): ExecutionJob => ({
  code: 'c',
  calls,
  hashSeed: 0,
  limits: DEFAULT_LIMITS,
  ...over,
});

describe('CachedExecutor', () => {
  it('runs the calls that are new, and gives all results in order', async () => {
    const inner = new EchoExecutor();
    const executor = new CachedExecutor(inner, 2 ** 20);
    await executor.run(job(['1', '2']), { signal });
    const result = await executor.run(job(['3', '2', '4', '1']), { signal });
    expect(result).toEqual({ kind: 'ran', calls: [{ repr: '3' }, { repr: '2' }, { repr: '4' }, { repr: '1' }] });
    expect(inner.jobs.map(({ calls }) => calls)).toEqual([
      ['1', '2'],
      ['3', '4'],
    ]);
    expect(await executor.run(job(['1', '2']), { signal })).toEqual({ kind: 'ran', calls: [{ repr: '1' }, { repr: '2' }] });
    expect(inner.jobs).toHaveLength(2);
  });

  it('reads a long program once for all calls of a job', { timeout: 10_000 }, async () => {
    const executor = new CachedExecutor(new EchoExecutor(), 2 ** 20);
    const calls = Array.from({ length: 2000 }, (_, i) => String(i));
    const result = await executor.run(job(calls, { code: 'x'.repeat(2 ** 23) }), { signal });
    expect(result.kind === 'ran' && result.calls.length).toBe(2000);
  });

  it('tells programs, seeds and limits apart', async () => {
    const inner = new EchoExecutor();
    const executor = new CachedExecutor(inner, 2 ** 20);
    for (const over of [{}, { code: 'd' }, { hashSeed: 1 }, { limits: { ...DEFAULT_LIMITS, seconds: 3 } }])
      await executor.run(job(['1'], over), { signal });
    expect(inner.jobs).toHaveLength(4);
  });

  it('keeps no deadline that was missed', async () => {
    const inner = new EchoExecutor();
    const executor = new CachedExecutor(inner, 2 ** 20);
    expect(await executor.run(job(['loop']), { signal })).toEqual({ kind: 'timeout', detail: 'late' });
    expect(await executor.run(job(['1', 'loop']), { signal })).toEqual({
      kind: 'ran',
      calls: [{ repr: '1' }, { error: 'timeout', message: 'late' }],
    });
    // The call that has a result keeps it next to one that fails.
    expect(await executor.run(job(['1', 'loop']), { signal })).toEqual({
      kind: 'ran',
      calls: [{ repr: '1' }, { error: 'timeout', message: 'late' }],
    });
    expect(inner.jobs.map(({ calls }) => calls)).toEqual([['loop'], ['1', 'loop'], ['loop']]);
  });

  it('keeps facts by code and rules', async () => {
    const inner = new EchoExecutor();
    const executor = new CachedExecutor(inner, 2 ** 20);
    for (const banned of [['os'], ['os'], ['sys']]) await executor.analyse('c', { banned, signal });
    expect(inner.analysed).toBe(2);
  });

  it('forgets the oldest results when its memory is full', async () => {
    const inner = new EchoExecutor();
    const executor = new CachedExecutor(inner, 2000);
    for (let i = 0; i < 20; i += 1) await executor.run(job([String(i)]), { signal });
    await executor.run(job(['19', '0']), { signal });
    expect(inner.jobs.at(-1)!.calls).toEqual(['0']);
  });
});
