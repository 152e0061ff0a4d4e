/** Programs on either side of the rule of plain programs, and a grammar that draws them from the pieces of both. */
import fc from 'fast-check';

export const PLAIN = [
  "def f(a):\n  a = a[::-1]\n  return a + '3'",
  'def f(a: int, b: str = "x") -> bool:\n  return a > len(b) and b is not None',
  "def f(s):\n  words = s.split()\n  words.sort(key=lambda w: (len(w), w), reverse=True)\n  return ' '.join(w.title() for w in words)",
  'def f(n):\n  total = 0\n  for i, x in enumerate(range(n)):\n    if i % 2: continue\n    total += x ** 2\n  else:\n    total -= 1\n  return total',
  'def f(a):\n  counts = {}\n  for c in a: counts[c] = counts.get(c, 0) + 1\n  return sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))',
  'def f(a):\n  def g(n): return 1 if n < 2 else n * g(n - 1)\n  return [g(x) for x in a]',
  'def f(a):\n  try:\n    return int(a)\n  except (ValueError, TypeError) as e:\n    return str(e)',
  'import math\ndef f(a): return math.sqrt(a), math.pi, round(math.log2(a), 3)',
  'from math import gcd, pi\ndef f(a): return gcd(a, 4), pi',
  'from collections import Counter, defaultdict, deque\ndef f(a):\n  d = defaultdict(list)\n  for x in a: d[x].append(1)\n  return Counter(a).most_common(2), dict(d), list(deque(a))',
  'from functools import reduce\nfrom itertools import accumulate, product\ndef f(a): return reduce(lambda x, y: x * y, a, 1), list(accumulate(a)), sum(x * y for x, y in product(a, a))',
  'import re, string\ndef f(s): return re.findall(r"\\d+", s), [c for c in s if c in string.ascii_lowercase]',
  'from typing import List\ndef f(a: List[int]) -> List[int]: return [x for x in a if x]',
  'def f(a):\n  x, y = map(int, a.split())\n  return max(x, y), min([x, y], key=abs), [*zip(a, a)], any(c == "1" for c in a)',
  'def f(a):\n  first = next((x for x in a if x > 1), None)\n  return f"{first!r:>4}", "%s" % first, (n := 3) + n',
  'def f(m): return [list(row) for row in zip(*m)], "a" in {"a": 1}.keys(), bytes.fromhex("00"), dict.fromkeys("ab", 0)',
  'import typing\nfrom typing import Dict, Optional\ndef f(a: Optional[Dict[str, list[int]]], b: typing.Any = None) -> int | None:\n  c: typing.Tuple[int, ...] = (1,)\n  return c',
  'import re\ndef f(a): return re.sub("x", "y", a, count=1), re.split("x", a, 1), [*map(str, a)], [str(x) for x in a], bytes(a)',
  'def f(a):\n  aa + 5\n  return a',
  'def f(a):\n  assert a, "empty"\n  if not a: raise ValueError("no")\n  while True:\n    a -= 1\n    if a < 0: break\n  return a',
];

export const NOT_PLAIN = [
  // Reaches other objects.
  'def f(a): return a.__class__',
  'def f(a): return "{0.__class__}".format(a)',
  'def f(a): return getattr(a, "x", 1)',
  'def f(a): return __builtins__',
  'def f(a): return __name__',
  'def f(a): return open("x")',
  'def f(a): return eval("1")',
  'def f(a): return type("A", (), {})()',
  'def f(a): return str.join',
  'def f(a): a.x = 1',
  'def f(a):\n  del a.x',
  'def f(a): return f.x',
  'import os\ndef f(a): return a',
  'import math as m\ndef f(a): return m.__dict__',
  'from math import *\ndef f(a): return a',
  'from . import x\ndef f(a): return a',
  'import importlib\ndef f(a): return a',
  'class A: pass\ndef f(a): return a',
  'def f(a):\n  with a: pass',
  'def f(a):\n  global x\n  x = 1',
  '@staticmethod\ndef f(a): return a',
  'async def f(a): return a',
  'def f(a):\n  yield a',
  'def f(a, b=[]): return b',
  'def f(a): return (lambda: a)()',
  // Binds a name that the rule relies on.
  'def len(a): return a\ndef f(a): return len(a)',
  'def f(int): return int(1)',
  'def f(a):\n  for map in a: pass',
  'from math import sqrt\nsqrt = 1\ndef f(a): return a',
  'import math\ndef f(math): return math.sqrt(1)',
  'def g(a): return a\ndef f(g): return g(1)',
  'def f(a):\n  try: pass\n  except ValueError as len: pass',
  // Sees the seed of hashes.
  'def f(a): return hash(a)',
  'def f(a): return {1, 2}',
  'def f(a): return set(a)',
  'def f(a): return {x for x in a}',
  'def f(a): return a.keys() & a.keys()',
  'def f(a):\n  k = a.keys()\n  return k - k',
  'def f(a): return frozenset(a)',
  // Sees addresses.
  'def f(a): return id(a)',
  'def f(a): return str(f)',
  'def f(a): return f"{len}"',
  'def f(a): return [print]',
  'def f(a): return str(lambda: 0)',
  'def f(a):\n  g = lambda: 0\n  return str(g)',
  'def f(a): return str(map(len, a))',
  'def f(a):\n  z = zip(a, a)\n  return str(z)',
  'def f(a): return str(x for x in a)',
  'def f(a): return list([map(len, a)])',
  'def f(a): return list(map(zip, a))',
  'def f(a): return min(map(len, a), map(len, a), key=lambda m: 0)',
  'def f(a): return next(iter(a), map(len, a))',
  'def f(a): return str(a.append)',
  'def f(a): return str(iter(a))',
  'def f(a): return object()',
  'def f(a):\n  def g(): return 1\n  return g',
  'def f(a): return 1 if a is "x" else 0',
  'from functools import reduce\ndef f(a): return reduce(lambda x, y: y, [], map(len, a))',
  'from collections import defaultdict\ndef f(a): return str(defaultdict(lambda: 0))',
  // Sees how full memory or the stack is.
  'def f(a):\n  try: return f(a)\n  except RecursionError: return 1',
  'def f(a):\n  try: return f(a)\n  except Exception: return 1',
  'def f(a):\n  try: return f(a)\n  except: return 1',
  'def f(a):\n  try: return f(a)\n  finally: return 1',
  'def f(a):\n  try: return [0] * 10 ** 9\n  except MemoryError: return 1',
  'def f(a):\n  import re\n  return f(a)',
  'import re\ndef f(a): return re.sub("x", "y", f(a))',
  'from collections import Counter\ndef f(a): return Counter(f(a))',
  // Sees what a library remembers.
  'from typing import List\ndef f(a): return str(List[a])',
  'import typing\ndef f(a):\n  x = typing.List\n  return x',
  'from typing import List\ndef f(a: (x := List[1])): return a',
  'from typing import List\ndef f(a: [1 for x in [List[1]] if str(x)]): return a',
  'from collections import defaultdict\nfrom typing import List\nd = defaultdict(int)\ndef f(a: d[List[1.0]]): return str(d)',
  'from typing import List\ndef f(a): return a\ntry:\n  x: List[((List[1.0],),)]\nexcept TypeError as e:\n  y = str(e)',
  'import re\ndef f(a): return re.search("x", a, 0.0)',
  'import re\ndef f(a): return re.sub("x", "y", a, flags=a)',
  'import re\ndef f(a): return re.match(*a)',
  'from re import search\ndef f(a): return [*map(search, a, a, a)]',
  'def f(a): return str(a, "idna")',
  'def f(a): return bytes(*a)',
  'def f(a): return str(object=a, encoding="idna")',
  'def f(a): return [*map(str, a, a)]',
  'from functools import reduce\ndef f(a): return reduce(str, a)',
  'from itertools import accumulate\ndef f(a): return [*accumulate(a, str)]',
  // Prints elsewhere.
  'def f(a): print(1, file=a)',
  'def f(a): print(**a)',
  'def f(a): return input()',
];

/** Mostly of the first list, so that many programs are plain. */
const mostly = (usual: readonly string[], odd: readonly string[]): fc.Arbitrary<string> =>
  fc.oneof({ weight: 14, arbitrary: fc.constantFrom(...usual) }, { weight: 1, arbitrary: fc.constantFrom(...odd) });

const leaf = mostly(
  [
    'a',
    'x',
    'y',
    'e',
    'i',
    '0',
    '1',
    '-2',
    '3.5',
    "'ab'",
    "b'z'",
    'None',
    'True',
    '()',
    '[]',
    '{}',
    '[3, 1, 2]',
    "{'k': 1, 'j': 2}",
    "'b a c'",
    'int',
    'str',
  ],
  ['len', 'f', 'g', 'print', 'set', 'type', 'math', 'sqrt', '__name__', 'object', 'globals()', 'dir()', 'set()', 'math.pi', "open('x')"],
);
const method = mostly(
  ['append', 'pop', 'keys', 'values', 'items', 'sort', 'split', 'join', 'update', 'get', 'upper', 'copy', 'extend', 'index', 'most_common'],
  ['format', '__class__', 'gi_frame', 'x', 'encode', '__init__'],
);
const callee = mostly(
  [
    'len',
    'str',
    'repr',
    'sorted',
    'sum',
    'list',
    'tuple',
    'dict',
    'map',
    'filter',
    'zip',
    'enumerate',
    'reversed',
    'max',
    'min',
    'abs',
    'int',
    'range',
    'any',
  ],
  [
    'next',
    'iter',
    'set',
    'print',
    'f',
    'g',
    'x',
    'math.sqrt',
    'sqrt',
    'hash',
    'id',
    'type',
    'getattr',
    'isinstance',
    'format',
    'reduce',
    'Counter',
    'chain',
  ],
);
const operator = mostly(['+', '*', '==', '<', 'in', 'and', 'or', '&', '-', '%', '|', 'not in'], ['is', 'is not']);

/** One of the first forms, and now and then one that is hardly ever plain. */
const form = (usual: readonly fc.Arbitrary<string>[], odd: readonly fc.Arbitrary<string>[]): fc.Arbitrary<string> =>
  fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    ...usual.map((arbitrary) => ({ weight: 10, arbitrary })),
    ...odd.map((arbitrary) => ({ weight: 1, arbitrary })),
  );

const keyed = mostly(['sorted', 'max', 'min'], ['sum', 'list', 'map', 'g']);
const walking = mostly(['sum', 'list', 'tuple', 'any', 'all', 'sorted', 'max', 'len', 'dict', 'set'], ['str', 'print', 'g', 'map']);

const { expression } = fc.letrec<{ expression: string }>((tie) => ({
  expression: form(
    [
      leaf,
      fc.tuple(tie('expression'), operator, tie('expression')).map(([l, o, r]) => `(${l} ${o} ${r})`),
      fc.tuple(callee, fc.array(tie('expression'), { minLength: 1, maxLength: 2 })).map(([c, args]) => `${c}(${args.join(', ')})`),
      fc.tuple(walking, callee, tie('expression')).map(([w, c, xs]) => `${w}(${c}(${xs}))`),
      fc.tuple(keyed, tie('expression'), tie('expression')).map(([c, xs, body]) => `${c}(${xs}, key=lambda x: ${body})`),
      fc.tuple(walking, tie('expression'), tie('expression')).map(([w, body, xs]) => `${w}(${body} for i in ${xs})`),
      fc.tuple(tie('expression'), method, fc.array(tie('expression'), { maxLength: 2 })).map(([o, m, args]) => `(${o}).${m}(${args.join(', ')})`),
      fc.tuple(tie('expression'), tie('expression')).map(([o, i]) => `(${o})[${i}]`),
      fc.tuple(tie('expression'), tie('expression')).map(([x, xs]) => `[${x} for i in ${xs}]`),
      fc.tuple(tie('expression'), tie('expression')).map(([k, v]) => `{${k}: ${v}}`),
      tie('expression').map((x) => `f"{${x.replaceAll('"', "'")}}"`),
      fc.tuple(tie('expression'), tie('expression')).map(([p, q]) => `(${p} if ${q} else 0)`),
      tie('expression').map((x) => `(x := ${x})`),
    ],
    [
      fc.tuple(callee, tie('expression')).map(([c, body]) => `${c}(lambda x: ${body}, a)`),
      fc.tuple(callee, tie('expression'), tie('expression')).map(([c, xs, body]) => `${c}(${xs}, key=lambda x: ${body})`),
      fc.tuple(callee, tie('expression')).map(([c, xs]) => `${c}(i for i in ${xs})`),
      fc.tuple(tie('expression'), method).map(([o, m]) => `(${o}).${m}`),
      fc.tuple(tie('expression'), tie('expression')).map(([k, v]) => `{${k}, ${v}}`),
    ],
  ),
}));

const statement = form(
  [
    expression.map((x) => `x = ${x}`),
    expression.map((x) => `y, e = ${x}`),
    fc.tuple(leaf, expression).map(([o, v]) => `(${o})[0] = ${v}`),
    fc.tuple(expression, expression).map(([xs, v]) => `for i in ${xs}: y = ${v}`),
    fc.tuple(expression, expression).map(([t, v]) => `while ${t}:\n    x = ${v}\n    break`),
    fc.tuple(expression, expression).map(([t, v]) => `try:\n    x = ${t}\n  except (KeyError, TypeError, ValueError) as e:\n    y = ${v}, str(e)`),
    expression,
  ],
  [
    fc.tuple(expression, method, expression).map(([o, m, v]) => `(${o}).${m} = ${v}`),
    expression.map((t) => `try:\n    x = ${t}\n  except Exception as e:\n    y = e`),
    fc.constantFrom('global x', 'del x', 'del len', 'len = 3', 'import math', 'assert a', 'raise ValueError(x)', 'def h(b): return b', "print = 'p'"),
  ],
);

const HEADS = [
  '',
  'import math\n',
  'from math import sqrt\n',
  'from functools import reduce\n',
  'from collections import Counter\n',
  'from itertools import chain\n',
  'import os\n',
];

/** A program of an `f(a)`, often one that the rule refuses, often one that raises. */
export const drawnProgram: fc.Arbitrary<string> = fc
  .tuple(fc.constantFrom(...HEADS), fc.array(statement, { maxLength: 3 }), expression, fc.option(expression))
  .map(([head, statements, value, other]) => {
    const g = other === null ? '' : `def g(x, y=1, e=2, i=0):\n  a = x\n  return ${other}\n`;
    return [`${head}${g}def f(a, x=1, y=2, e=3, i=0):`, ...statements.map((s) => `  ${s}`), `  return ${value}`].join('\n');
  });
