/** The contract of every CodeExecutor: honest programs, limits, and how jobs end. `code-executor-attacks.ts` has that of the isolated ones. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CancelledError } from '../../src/core/errors.ts';
import { type CodeExecutor, DEFAULT_LIMITS, type ExecutionLimits, type ExecutionResult } from '../../src/execution/index.ts';

export interface JobOptions extends Partial<ExecutionLimits> {
  readonly hashSeed?: number;
  readonly signal?: AbortSignal;
}

/** Loaded machines start an interpreter late. */
const PATIENT_SECONDS = 20;

export function runOn(executor: CodeExecutor, code: string, calls: readonly string[], options: JobOptions = {}): Promise<ExecutionResult> {
  const { hashSeed = 0, signal = new AbortController().signal, ...limits } = options;
  return executor.run({ code, calls, hashSeed, limits: { ...DEFAULT_LIMITS, seconds: PATIENT_SECONDS, ...limits } }, { signal });
}

export const HONEST = { code: "def f(a):\n  a = a[::-1]\n  return a + '3'", calls: ["'314'"], result: { kind: 'ran', calls: [{ repr: "'4133'" }] } };

/** Programs of every kind of value: code, arguments, repr. */
const VALUES: readonly (readonly [code: string, call: string, repr: string])[] = [
  ['def f(a): return a', "'314'", "'314'"],
  ['def f(a): return a', '"it\'s"', '"it\'s"'],
  ['def f(a, b=2): return a * b', '3', '6'],
  ['def f(a, b=2): return a * b', '3, b=4', '12'],
  ['def f(): return None', '', 'None'],
  ['def f(a): return sorted(a)', '[3, 1, 2]', '[1, 2, 3]'],
  ['def f(a): return {k: v for v, k in enumerate(a)}', "['x', 'y']", "{'x': 0, 'y': 1}"],
  ['def f(a): return a / 4, a // 4, a % 4', '-7', '(-1.75, -2, 1)'],
  ['def f(a): return 2 ** a', '100', '1267650600228229401496703205376'],
  ["def f(a): return float(a), -float('inf')", "'nan'", '(nan, -inf)'],
  ["def f(a): return b'a' + a", "b'\\xff'", "b'a\\xff'"],
  ['def f(a): return [a, [a]]', "'é\\n\\u4e2d\\ud800'", "['é\\n中\\ud800', ['é\\n中\\ud800']]"],
  ['import math\ndef f(a): return math.gcd(a, 12), math.pi', '18', '(6, 3.141592653589793)'],
  ['from collections import Counter\ndef f(a): return Counter(a).most_common(1)', "'abca'", "[('a', 2)]"],
  ['import re\ndef f(a): return re.findall(r"\\d+", a)', "'a1b22'", "['1', '22']"],
  ['def f(a): return len(set(a))', '[1, 1, 2]', '2'],
  ['class A:\n  def __init__(self, n): self.n = n\ndef f(a): return A(a).n + 1', '4', '5'],
  ['def f(a):\n  def g(n): return n + 1\n  return g(a)', '1', '2'],
  ['def f(a): return 1 if a < 2 else a * f(a - 1)', '5', '120'],
  ['def f(a):\n  try: return 1 / a\n  except ZeroDivisionError as e: return str(e)', '0', "'division by zero'"],
  ['import datetime, hashlib, json\ndef f(a): return json.dumps([a, hashlib.sha256(b"").hexdigest()[:4]])', '1', '\'[1, "e3b0"]\''],
  ['def f(a):\r\n\treturn a\r\n', '1', '1'],
  ['def f(a): return a', '[x * 2 for x in range(3)]', '[0, 2, 4]'],
];

/** Code, arguments, and the class of the exception. */
const ERRORS: readonly (readonly [code: string, call: string, error: string])[] = [
  ['def f(a): return a[0]', '7', 'TypeError'],
  ['def f(a): return 1 / a', '0', 'ZeroDivisionError'],
  ['def f(a) return a', '0', 'SyntaxError'],
  ['def g(a): return a', '0', 'NameError'],
  ['def f(a): return a', '1) + f(2', 'SyntaxError'],
  ['def f(a): return a', '1)(2', 'SyntaxError'],
  ['def f(a): return a', '', 'TypeError'],
  ['def f(a): return a', "'", 'SyntaxError'],
  ['raise ValueError(3)\ndef f(a): return a', '1', 'ValueError'],
  ['def f(a): raise SystemExit', '1', 'SystemExit'],
  ['def f(a): return f(a) + 1', '1', 'RecursionError'],
  ['def f(a): return [0] * 10 ** 9', '1', 'MemoryError'],
  ["def f(a): return 'x' * 5000", '1', 'ReprTooLong'],
  // CPython changed its mind about NUL.
  ['def f(a): return a\0', '1', 'SyntaxError|ValueError'],
  ['def f(a): return "\ud800"', '1', 'UnicodeEncodeError'],
  ['def f(a): return a', "'\ud800'", 'UnicodeEncodeError'],
  // A name that would be taken for no error.
  ["def f(a): raise type('', (ValueError,), {})('1')", '1', 'Exception'],
  ['def f(a): return a', 'f(1)', 'NameError'],
  ['import no_such_module\ndef f(a): return a', '1', 'ModuleNotFoundError'],
  ['def f(a): return input()', '1', 'EOFError'],
];

/** @param waiting options of the test that waits for a deadline twice: the tag `long` where another executor shows the same in `npm test` */
export function codeExecutorContract(open: () => Promise<CodeExecutor>, waiting: { readonly tags?: 'long' } = {}): void {
  describe('contract', () => {
    let executor: CodeExecutor;
    beforeAll(async () => {
      executor = await open();
    }, 60_000);
    afterAll(() => executor.close());

    it.each(VALUES)('%j of %s is %s', async (code, call, repr) => {
      expect(await runOn(executor, code, [call])).toEqual({ kind: 'ran', calls: [{ repr }] });
    });

    it.each(ERRORS)('%j of %s raises %s', async (code, call, error) => {
      const result = await runOn(executor, code, [call]);
      expect(result).toEqual({ kind: 'ran', calls: [{ error: expect.stringMatching(new RegExp(`^(${error})$`)), message: expect.any(String) }] });
    });

    it('gives the results of several calls in order, each in a module that ran again', async () => {
      const code = 'seen = []\ndef f(a):\n  seen.append(a)\n  return 10 // a, seen';
      expect(await runOn(executor, code, ['1', '0', '5'])).toEqual({
        kind: 'ran',
        calls: [{ repr: '(10, [1])' }, { error: 'ZeroDivisionError', message: 'integer division or modulo by zero' }, { repr: '(2, [5])' }],
      });
    });

    it('runs no call', async () => {
      expect(await runOn(executor, HONEST.code, [])).toEqual({ kind: 'ran', calls: [] });
    });

    it('orders sets by the seed of hashes alone', async () => {
      const code = "def f(a): return {'b', 'a', 'c', 'zeta', 'omega'}";
      const results = [];
      for (const hashSeed of [1, 2, 1]) results.push(await runOn(executor, code, ['0'], { hashSeed }));
      expect(results[0]).toEqual(results[2]);
      expect(results[0]).not.toEqual(results[1]);
    });

    it('cuts messages at 200 characters', async () => {
      const result = await runOn(executor, "def f(a): raise ValueError('x' * 1000)", ['1']);
      expect(result).toEqual({ kind: 'ran', calls: [{ error: 'ValueError', message: 'x'.repeat(200) }] });
    });

    it.each([
      ['the built-in module', 'import builtins as keep'],
      ['another module', 'import math as keep'],
      ['its own modules', 'import sys\nkeep = sys'],
      ['a type', 'class Holder: pass\nimport types\nkeep = types.ModuleType'],
    ])('lets no call of a program that is not plain see an earlier one: a counter in %s', async (_, keeper) => {
      const code = `${keeper}\ndef f(a):\n    try:\n        keep.seen = getattr(keep, 'seen', 0) + 1\n    except TypeError:\n        return 1\n    return keep.seen`;
      expect(await runOn(executor, code, ['1', '2', '3'])).toEqual({ kind: 'ran', calls: [{ repr: '1' }, { repr: '1' }, { repr: '1' }] });
    });

    it('saves the other calls of a job when one runs for too long', waiting, async () => {
      const result = await runOn(executor, 'def f(a):\n  while a: pass\n  return a', ['0', '1', '[]'], { seconds: 1 });
      expect(result).toEqual({
        kind: 'ran',
        calls: [{ repr: '0' }, { error: 'timeout', message: expect.stringContaining('1 s') }, { repr: '[]' }],
      });
    });

    it('counts what is printed and keeps none of it', async () => {
      const code = 'def f(a):\n  print("x" * a)\n  return a';
      expect(await runOn(executor, code, ['900'], { outputBytes: 1000 })).toEqual({ kind: 'ran', calls: [{ repr: '900' }] });
      expect(await runOn(executor, code, ['2000'], { outputBytes: 1000 })).toMatchObject({ kind: 'output_too_long' });
    });

    it('evaluates arguments that could change the program apart from it', async () => {
      const poison = '(__import__("builtins").__dict__.update(repr=lambda x: "\'4133\'"), "1")[1]';
      const rebind = '(STEP := "!") and "1"';
      const code = "STEP = '3'\ndef f(a): return a[::-1] + STEP";
      const result = await runOn(executor, code, ["'2'", poison, rebind, 'STEP', 'lambda: 1', '*("ab"), **{}']);
      expect(result).toEqual({
        kind: 'ran',
        calls: [
          { repr: "'23'" },
          { repr: "'13'" },
          { repr: "'13'" },
          { error: 'NameError', message: "name 'STEP' is not defined" },
          { error: 'ValueError', message: 'the arguments have no literal repr' },
          { error: 'TypeError', message: 'f() takes 1 positional argument but 2 were given' },
        ],
      });
    });

    it.each([
      '([SEEN for SEEN in []] or SEEN.append(4)) or 1',
      '[SEEN for SEEN in ()] or SEEN',
      '[f for f in ()] or f',
      '([g for g in ()] or g, 1)[1]',
    ])('hides the names of a program from arguments that bind them for themselves: %s', async (call) => {
      const code = 'SEEN = [3]\ndef g(a): return a\ndef f(a): return SEEN, str(a)';
      expect(await runOn(executor, code, [call, '1'])).toEqual({
        kind: 'ran',
        calls: [{ error: 'NameError', message: expect.stringMatching(/^name '(SEEN|f|g)' is not defined$/) }, { repr: "([3], '1')" }],
      });
    });

    it('runs many jobs at once and mixes up none', async () => {
      const jobs = Array.from({ length: 12 }, (_, i) => runOn(executor, `def f(a): return a + ${i}`, ['1', '2']));
      const reprs = (await Promise.all(jobs)).map((result) => (result.kind === 'ran' ? result.calls : result));
      expect(reprs).toEqual(Array.from({ length: 12 }, (_, i) => [{ repr: String(i + 1) }, { repr: String(i + 2) }]));
    });

    it('stops a job when its signal aborts, and goes on', async () => {
      const controller = new AbortController();
      const job = runOn(executor, 'def f(a):\n  while True: pass', ['1'], { signal: controller.signal });
      setTimeout(() => controller.abort(), 200);
      await expect(job).rejects.toBeInstanceOf(CancelledError);
      await expect(runOn(executor, HONEST.code, HONEST.calls, { signal: AbortSignal.abort() })).rejects.toBeInstanceOf(CancelledError);
      expect(await runOn(executor, HONEST.code, HONEST.calls)).toEqual(HONEST.result);
    });

    it('reads programs without running them', async () => {
      const signal = new AbortController().signal;
      const code = 'import os.path\nprint(1)\nwhile True: pass\ndef g(a):\n  """doc"""\n  return g(a)  # again';
      const facts = await executor.analyse(code, { banned: ['os.path', 'sys'], signal });
      expect(facts).toMatchObject({ syntaxError: null, functions: ['g'], entry: 'g', banned: ['os.path'], plain: false });
      expect(await executor.analyse('def f(a): return a', { banned: [], signal })).toMatchObject({ entry: 'f', plain: true });
      expect(await executor.analyse('def f(a) return', { banned: [], signal })).toMatchObject({ entry: null, syntaxError: expect.any(String) });
    });

    it('ends what runs and what waits when it is closed', async () => {
      const other = await open();
      const jobs = Array.from({ length: 5 }, () => runOn(other, 'def f(a):\n  while True: pass', ['1']));
      const ends = Promise.all(jobs.map((job) => expect(job).rejects.toBeInstanceOf(CancelledError)));
      await other.close();
      await ends;
      await expect(runOn(other, HONEST.code, HONEST.calls)).rejects.toBeInstanceOf(CancelledError);
    });
  });
}
