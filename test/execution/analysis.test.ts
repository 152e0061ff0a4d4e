import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AnalyseOptions, type CodeExecutor, openExecutor } from '../../src/execution/index.ts';

const { signal } = new AbortController();
const BANNED = ['random', 'time', 'os.path', 'sys.exit', 'calendar'];
let executor: CodeExecutor;
beforeAll(async () => void (executor = await openExecutor('wasi', { workers: 1 })), 60_000);
afterAll(() => executor.close());

const analyse = (code: string, options: Partial<AnalyseOptions> = {}) => executor.analyse(code, { banned: BANNED, signal, ...options });

describe('analyse', () => {
  it.each([
    ['import random', ['random']],
    ['import random as r', ['random']],
    ['from random import choice', ['random']],
    ['def f(a):\n    import calendar as c', ['calendar']],
    ['import os.path', ['os.path']],
    ['import os.path as p', ['os.path']],
    ['from os import path', ['os.path']],
    ['from os import *', ['os.path']],
    ['import os as o\no.path.join("a")', ['os.path']],
    ['import sys\nsys . exit()', ['sys.exit']],
    ['from sys import exit', ['sys.exit']],
    ['import numpy as np\nnp.random.rand()', ['random']],
    ['from . import time', ['time']],
    ['__import__("random")', ['random']],
    ['import importlib\nimportlib.import_module("time")', ['time']],
    ['from importlib import import_module as m\nm("time")', ['time']],
    ['__import__("ran" + "dom")', BANNED],
    ['import time (', ['time']],
    ['exec("import " + "random")', BANNED],
    ['run = exec', BANNED],
    ['exec("import random")', ['random']],
    ['eval("1 + 1")', []],
    ['__builtins__["__import__"]("random")', BANNED],
    ['getattr(__builtins__, "__import__")("random")', BANNED],
    ['list(map(__import__, ["random"]))', BANNED],
    ['globals()["__builtins__"]', BANNED],
    ['import sys\nsys.modules["random"]', BANNED],
    ['from sys import modules as m\nm["random"]', BANNED],
    ['from sys import *', BANNED],
    ['import builtins', BANNED],
    ['import pickle\npickle.loads(b"")', BANNED],
    ['import pkgutil\npkgutil.resolve_name("random")', BANNED],
    ['import importlib.util', BANNED],
    ['from importlib import util', BANNED],
    ['import string\nstring.capwords.__globals__', BANNED],
    ['import string\ngetattr(string.capwords, "__glo" + "bals__")', BANNED],
    ['import operator\noperator.attrgetter("__globals__")', BANNED],
    ['().__class__.__base__.__subclasses__()', BANNED],
    ['__loader__.find_spec("random")', BANNED],
    ['import os\n[os][0].path', ['os.path']],
    ['import os\n(os if 1 else 0).path', ['os.path']],
    ['import os\nvars(os)["path"]', ['os.path']],
    ['import re\nre.compile("a")\nx = getattr(re, "match")', []],
    ['import math\n[math]', []],
    ['class A:\n    def __init__(self): self.__dict__["x"] = vars(self)', []],
    ['import os\nos.getcwd()', []],
    ['time = 3\ntime.real', []],
    ['import timeit', []],
  ])('%j uses %j', async (code, banned) => {
    expect((await analyse(code)).banned).toEqual(banned);
  });

  it('has upstream’s rule, by which a dotted name is never found, as an option', async () => {
    const code = 'import os.path\nfrom sys import exit\nimport x.random';
    expect((await analyse(code, { bannedRule: 'modules' })).banned).toEqual(['random']);
  });

  it.each([
    ['that reads the name', "'''\ndef f(\n'''\ndef \\\ng(x):\n    return int(str(f)[15:-1], 16)"],
    ['where another function binds it', 'def g(x):\n    def h(f): return 1\n    return str(f)'],
  ])('finds no program plain {after its rename to f} %s', async (_, code) => {
    expect(await analyse(code)).toMatchObject({ entry: 'g', plain: false });
  });

  it('finds a program plain {after a rename that changes nothing else}', async () => {
    expect(await analyse('def g(a):\n    return a + 1')).toMatchObject({ code: 'def f(a):\n    return a + 1', plain: true });
  });

  it('counts a word that hides imports, whatever else a plain program says', async () => {
    for (const name of ['x', 'pastime']) expect((await analyse(`def f(${name}): return '__globals__'`)).banned).toEqual(BANNED);
    expect((await analyse('def f(pastime): return pastime')).banned).toEqual([]);
  });

  it('lists functions, the entry and all imports', async () => {
    const { functions, entry, imports } = await analyse('import re as r\nfrom . import x\ndef g(a):\n    from math import pi, e as f\n    return a');
    expect({ functions, entry, imports }).toEqual({
      functions: ['g'],
      entry: 'g',
      imports: ['import re as r', 'from . import x', 'from math import pi, e as f'],
    });
    expect((await analyse('def f(a): return a\ndef g(a): return a')).entry).toBeNull();
  });

  it('writes a program the same, whatever its comments and spaces are', async () => {
    const texts = ['def grow(n):\n  """doc"""\n  # why\n  return n*grow(n-1)', 'def f( n ) :\r\n\treturn n * f(n - 1)\r\n'];
    const codes = await Promise.all(texts.map(async (text) => (await analyse(text)).code));
    expect(codes).toEqual(Array.from({ length: 2 }, () => 'def f(n):\n    return n * f(n - 1)'));
  });

  it('rewrites in the order that is given', async () => {
    const code = 'x = 1\ndef f(a):\n    print(a)\n    b = print(a)\n    return f(b)\n# end';
    expect((await analyse(code, { rewrites: ['definitions', 'prints', ['f', 'g']] })).code).toBe('def g(a):\n    b = None\n    return g(b)');
  });

  it('says what is wrong with what is not a program, and goes on', async () => {
    const broken = ['def f(a', 'x = "\0"', '\ud800', `x = ${'('.repeat(1000)}`, `x = ${'-'.repeat(20_000)}1`, `x = ${'9'.repeat(5000)}`];
    for (const code of broken) expect(await analyse(code).then(({ syntaxError }) => syntaxError, String)).toMatch(/./);
    expect((await analyse('def f(a): return a')).syntaxError).toBeNull();
  });

  it('measures a program where it is asked to', async () => {
    const code = 'def f(a):\n    if a > 1 and a < 3:\n        return a * 2\n    return a';
    expect(await analyse(code)).not.toHaveProperty('measures');
    const { measures } = await analyse(code, { measured: true });
    // Operators: and, >, <, *. Operands: both comparisons, a, 1, a, 3, a, 2; six of them differ.
    expect(measures).toMatchObject({ cognitive: 2, cyclomatic: 3, volume: expect.closeTo(12 * Math.log2(10), 9) as number });
    expect(measures!.effort).toBeCloseTo(12 * Math.log2(10) * ((4 * 8) / (2 * 6)), 9);
    expect((await analyse('def f(a): return -a', { measured: true })).measures!.nodes.join(' ')).toBe(
      "Module FunctionDef 'f' arguments arg 'a' Return UnaryOp USub Name 'a'",
    );
  });

  it.each([
    ['for x in a:\n        if x:\n            a = 1 if x else 2', 1 + 2 + 3],
    ['if a:\n        pass\n    elif a > 1:\n        pass\n    else:\n        pass', 1 + 1],
    ['try:\n        pass\n    except ValueError:\n        while a:\n            pass', 1 + 2],
    ['return a and 1 or 2 and 3', 3],
  ])('finds the cognitive complexity of %j: %i', async (body, cognitive) => {
    expect((await analyse(`def f(a):\n    ${body}`, { measured: true })).measures!.cognitive).toBe(cognitive);
  });

  it('measures no more than 1,000 nodes, and nothing that does not parse', async () => {
    expect((await analyse(`x = [${'1,'.repeat(5000)}]`, { measured: true })).measures!.nodes).toHaveLength(1000);
    expect(await analyse('x = (', { measured: true })).not.toHaveProperty('measures');
  });
});
