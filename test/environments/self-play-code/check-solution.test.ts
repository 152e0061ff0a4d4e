import { checkSolution, type FunctionScore, judgeSolutions, type TaskRecord } from 'vf-search/environments/self-play-code';
import { type CodeExecutor, DEFAULT_LIMITS, openExecutor } from 'vf-search/execution';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const { signal } = new AbortController();
let executor: CodeExecutor;
beforeAll(async () => void (executor = await openExecutor('wasi', { workers: 1 })), 60_000);
afterAll(() => executor.close());

const task = (kind: 'code_i' | 'code_o' | 'code_e', snippet: string, output: string): TaskRecord => ({
  kind,
  snippet,
  input: '1',
  output,
  imports: [],
});
const named = (snippet: string, inputs: readonly string[], outputs: readonly string[]): TaskRecord => ({
  kind: 'code_f',
  snippet,
  inputs,
  outputs,
  message: '',
  imports: [],
});
// Enough for every program that ends, however busy the machine is.
const LIMITS = { ...DEFAULT_LIMITS, seconds: 30 };
const check = (record: TaskRecord, answer: string, functionScore: FunctionScore = 'binary', limits = LIMITS) =>
  checkSolution(record, answer, { executor, limits, functionScore, style: 'mini', signal });

describe('checkSolution', () => {
  it('compares an output by Python’s rules', async () => {
    const record = task('code_o', 'def f(a): return a', "{'a': 1, 'b': (2, 3)}");
    expect(await check(record, "{'b': (2.0, 3), 'a': True}")).toBe(1);
    expect(await check(record, "{'b': [2, 3], 'a': 1}")).toBe(0);
    expect(await check(record, '')).toBe(0);
  });

  it('evaluates an expression in the sandbox', async () => {
    expect(await check(task('code_o', '', '5'), '2 + 3')).toBe(1);
    expect(await check(task('code_o', '', 'inf'), "float('inf')")).toBe(1);
    expect(await check(task('code_o', '', '(1, 2)'), '1, 1 + 1')).toBe(1);
    expect(await check(task('code_o', '', '5'), 'open("/etc/passwd").read()')).toBe(0);
  });

  it('takes any input with the right output', async () => {
    const record = task('code_i', 'def f(a, b=0): return abs(a) + b', '3');
    const answers = ['3', '-3', '1, 2', '1, b=2', 'a=3', '1 + 2', '4', '', 'x', '3)', '3 # c'];
    const verdicts = await judgeSolutions(record, answers, { executor, limits: LIMITS, functionScore: 'binary', signal });
    expect(verdicts.map(({ accuracy }) => accuracy)).toEqual([1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
  });

  it('never lets an input change the program, or the text around the call', async () => {
    const record = task('code_i', 'LIMIT = 10\ndef f(a): return len(a) + LIMIT', '99');
    const attacks = [
      '1) or (99',
      '[]) if 0 else (99',
      '[].__class__) and 99 or (1',
      "setattr(__import__('builtins'), 'len', lambda a: 89) or [1]",
      'globals().update(LIMIT=98) or [1]',
      '(f := lambda a: 99)',
      "type('A', (), {'__len__': lambda s: 89})()",
    ];
    for (const attack of attacks) expect({ attack, accuracy: await check(record, attack) }).toEqual({ attack, accuracy: 0 });
  });

  it('calls a program with the hidden half of the inputs', async () => {
    const record = named('', ['1', '2', '3', '4'], ['2', '3', '4', '5']);
    expect(await check(record, 'def f(a): return a + 1')).toBe(1);
    expect(await check(record, 'def f(a): return {1: 2, 2: 3}[a]')).toBe(0);
    const half = 'def f(a): return 4';
    const scores: number[] = [];
    for (const score of ['binary', 'accuracy', 'if_one_correct'] as const) scores.push(await check(record, half, score));
    expect(scores).toEqual([0, 0.5, 1]);
  });

  it('pays no class that says that it equals everything', async () => {
    const record = named('', ['1', '2'], ['2', '3']);
    const attacks = [
      'class A:\n  __eq__ = lambda s, o: True\ndef f(a): return A()',
      'class A(int):\n  __eq__ = lambda s, o: True\ndef f(a): return A(7)',
      "class A:\n  __repr__ = lambda s: '2 or 3'\ndef f(a): return A()",
      'import builtins\nbuiltins.repr = lambda v: "7"\ndef f(a): return 7',
    ];
    for (const attack of attacks) expect({ attack, accuracy: await check(record, attack) }).toEqual({ attack, accuracy: 0 });
    expect(await check(record, 'def f(a): return a + 1')).toBe(1);
  });

  it('counts errors and loops as wrong, and goes on', async () => {
    const record = named('', ['1', '2'], ['2', '3']);
    expect(await check(record, 'def f(a):\n  while True: pass', 'binary', { ...LIMITS, seconds: 0.3 })).toBe(0);
    for (const code of ['def f(a): return a / 0', 'def g(a): return a + 1', 'def f(a', '\0']) expect(await check(record, code)).toBe(0);
    expect(await check(record, 'def f(a): return a + 1')).toBe(1);
  });

  it('compares the name of an error without regard to case, up to a colon', async () => {
    const record = task('code_e', 'def f(a): return a.x', 'AttributeError');
    expect([await check(record, 'attributeerror: no x'), await check(record, 'TypeError')]).toEqual([1, 0]);
  });

  it('reads a full answer from its fences', async () => {
    const options = { executor, limits: LIMITS, functionScore: 'binary', style: 'full', signal } as const;
    expect(await checkSolution(task('code_o', '', '5'), 'So:\n```output\n5\n```', options)).toBe(1);
    expect(await checkSolution(named('', ['1', '2'], ['2', '3']), '```python\ndef f(a): return a + 1\n```', options)).toBe(1);
    expect(await checkSolution(named('', ['1', '2'], ['2', '3']), 'def f(a): return a + 1', options)).toBe(0);
  });
});
