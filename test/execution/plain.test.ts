/** The rule of plain programs: what it lets through can neither change nor see anything but its own values. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CallResult, type CodeExecutor, DEFAULT_LIMITS, openExecutor } from '../../src/execution/index.ts';
import { drawnProgram, NOT_PLAIN, PLAIN } from './plain-programs.ts';

const signal = new AbortController().signal;
let executor: CodeExecutor;
beforeAll(async () => {
  executor = await openExecutor('wasi', { workers: 1, cacheBytes: 0 });
}, 60_000);
afterAll(() => executor.close());

/** Arguments of drawn programs. */
const CALLS = ["'b1 a'", '[2, 0, 1]', "{'k': 'v', 'j': 0}", '-3'];

// Runs in an interpreter of its own, where it compares everything that programs share before and after each program.
const WATCH = `
import sys, builtins, collections, functools, heapq, bisect, itertools, math, re, string, typing
from plain import is_plain

def state():
  seen = {}
  for name, module in sys.modules.items():
    if name != 'program': seen[name] = {key: id(value) for key, value in vars(module).items()}
  for kind in (int, str, list, dict, tuple, bytes, float, type, object, BaseException, ValueError, collections.Counter, collections.deque):
    seen[kind.__name__] = {key: id(value) for key, value in vars(kind).items()}
  seen['numbers'] = (sys.getrecursionlimit(), sys.get_int_max_str_digits(), sys.gettrace(), sys.getprofile(), sys.stdout, sys.displayhook, len(sys.path))
  return seen

def f(programs, calls):
  results = []
  for text in programs:
    try:
      plain = is_plain(compile(text, 'p', 'exec', 0x400))
    except SyntaxError:
      plain = None
    if plain:
      before = state()
      for call in calls:
        space = {'__name__': 'program'}
        try:
          exec(compile(text, 'p', 'exec'), space)
          space['f'](call)
        except (Exception, SystemExit): pass
      after = state()
      for name in after:
        if name in before and before[name] != after[name]: plain = f'changed {name}'
    results.append(plain)
  return results`;

const python = (value: unknown): string =>
  JSON.stringify(value).replaceAll(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

describe('plain programs', () => {
  it.each(PLAIN)('are such as %j', async (code) => {
    expect(await executor.analyse(code, { banned: [], signal })).toMatchObject({ plain: true, syntaxError: null });
  });

  it.each(NOT_PLAIN)('are not such as %j', async (code) => {
    expect(await executor.analyse(code, { banned: [], signal })).toMatchObject({ plain: false, syntaxError: null });
  });

  it('change nothing that others see, and see nothing that others left { any drawn program }', { timeout: 300_000 }, async () => {
    let plain = 0;
    const limits = { ...DEFAULT_LIMITS, seconds: 30, reprLength: 100_000 };
    await fc.assert(
      fc.asyncProperty(fc.array(drawnProgram, { minLength: 150, maxLength: 150, size: 'max' }), async (programs) => {
        const watched = await executor.run({ code: WATCH, calls: [`${python(programs)}, [${CALLS.join(', ')}]`], hashSeed: 0, limits }, { signal });
        const verdicts = reprs(watched.kind === 'ran' ? watched.calls : [])[0]!
          .slice(1, -1)
          .split(', ');
        expect(verdicts).toHaveLength(programs.length);
        expect(verdicts.filter((verdict) => !['True', 'False', 'None'].includes(verdict))).toEqual([]);
        const chosen = programs.filter((_, i) => verdicts[i] === 'True');
        plain += chosen.length;
        for (const code of chosen.slice(0, 4)) {
          const shared = await executor.run({ code, calls: CALLS, hashSeed: 0, limits }, { signal });
          // Another memory takes an interpreter of its own.
          const own = await executor.run({ code, calls: CALLS, hashSeed: 7, limits: { ...limits, memoryBytes: 2 * limits.memoryBytes } }, { signal });
          expect(shared).toEqual(own);
        }
      }),
      { numRuns: Number(process.env['VF_FUZZ_RUNS'] ?? 3) },
    );
    // A grammar whose programs are all refused would prove nothing.
    expect(plain).toBeGreaterThan(20);
  });
});

const reprs = (calls: readonly CallResult[]): string[] => calls.map((call) => ('repr' in call ? call.repr : `${call.error}: ${call.message}`));
