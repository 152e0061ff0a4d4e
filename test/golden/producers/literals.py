"""Writes test/golden/literals.json: what CPython reads in texts of literals, in texts with one wrong character, and which values are equal.

python3 test/golden/producers/literals.py
"""

import ast
import json
import pathlib
import platform
import random
import struct
import warnings

SEED = 20261125
warnings.simplefilter("ignore")
NAMES = {"nan": float("nan"), "inf": float("inf"), "nanj": complex(0, float("nan")), "infj": complex(0, float("inf")), "set": set}
KNOWN = (ast.Expression, ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.UAdd, ast.USub, ast.Add, ast.Sub, ast.Name, ast.Load)
CHARACTERS = "abczé漢🙂\\'\"\n\r\t\x07\x1b\x7f\xa0\u2028 {}#,"
FLOATS = [0.0, -0.0, 0.1, 1.5, 1e22, 1e-7, 5e-324, 1.7976931348623157e308, 2.0**53, float("inf"), float("-inf"), float("nan"), 100.0, -3.25]
INTS = [0, 1, -1, 2, 10, 255, 2**31, 2**53, 2**53 + 1, -(2**64), 10**30, 7**90]
EXTRA = [
    "1_000", "0x_fF", "0b1_0", "0o17", "00", "0_0", "007", "1__0", "_1", "1_", "0x", "1.", ".5", "1.e3", "1e", "1e+", "1_0.0_1e1_0", "5j", "07j", "0.5J",
    "1e400", "-1e400", "- 1", "+1", "--1", "-True", "1+2", "1+2j", "1-2j", "-0-2j", "2j+1", "1+2j+3", "(1+2j)", "(1)", "((1))", "(1,)", "1,", "1,2", "1,2,",
    ",", "(,)", "()", "[]", "{}", "set()", "set( )", "set ()", "set(\n)", "set([1])", "{1,}", "{1:2,}", "{1}", "{,}", "{1:}", "{1,2:3}", "{[]}", "{(): 1}",
    "{(1, []): 1}", "{{}: 1}", "{1, 1.0, True}", "{1: 'a', True: 'b'}", "[nan]", "nan", "inf", "-inf", "infj", "-infj", "(nan+infj)", "nanx", "Nan",
    "None", "True", "False", "none", "true", "NoneX", "...", "Ellipsis", "'a' 'b'", "'a' b'b'", "b'a' B'b'", "('a'\n'b')", "'a'\n'b'", "'a' \\\n'b'",
    "r'\\n'", "R'\\''", "rb'\\x'", "bR'\\x'", "u'a'", "ur'a'", "f'a'", "F'{1}'", "br'é'", "b'é'", "b'\\u1234'", "b'\\777'", "'\\777'", "'\\1a'", "'\\x4'", "'\\x41'",
    "'\\u12'", "'\\u1234'", "'\\U0001F642'", "'\\U00110000'", "'\\ud800'", "'\\ud83d\\ude42'", "'\\N{DIGIT ONE}'", "'\\q'", "'a\\\nb'", "'a\\\r\nb'", "'a\nb'",
    "'''a\nb'''", "'''a\r\nb\rc'''", '"""a"b"""', "''", "''''''", "'''a''b'''", "'''a\\'''b'''", "'a", "a'", "'a''b'", "'a'b", "1 # c", "# c\n1", "\n1", "\n\n 1", "  1",
    " \t1 ", "1\n", "1\n\n#c\n", "1\n2", "1 2", "[1\n,\n2 # x\n]", "[1\\\n,2]", "1\\\n", "1,\n2", "1,\\\n2", "\x0c1", "1\xa0", "\u30001", "[1;2]", "*1,", "[*()]", "{**{}}",
    "lambda: 1", "1 if 1 else 2", "x", "1.real", "1 .real", "'a'[0]", "(1)(2)", "[1][0]", "not 1", "~1", "1 < 2", "1 or 2", "`1`", "1l", "1in[1]", "0xfor", "1.5.5", "1..5",
    "[" * 60 + "]" * 60, "(" * 60 + ")" * 60, "[" * 60, "9" * 4300, "9" * 4301, "0x" + "f" * 5000, "é", "'é'", "'\x00'", "\x00", "", " ", "()()", "[],", "{}{}", "[1,,2]",
]  # fmt: skip


def number(rng):
    kind = rng.randrange(6)
    if kind < 2:
        return rng.choice(INTS) if rng.random() < 0.4 else rng.randrange(-50, 50)
    if kind == 2:
        return rng.choice(FLOATS)
    if kind == 3:
        return struct.unpack("<d", rng.randbytes(8))[0]
    return rng.choice([True, False]) if kind == 4 else complex(rng.choice(FLOATS), rng.choice(FLOATS))


def text(rng):
    return "".join(rng.choice(CHARACTERS) for _ in range(rng.randrange(6)))


def value(rng, depth, hashable=False):
    kind = rng.randrange(12) if depth > 0 else rng.randrange(6)
    if kind < 3:
        return number(rng)
    if kind < 5:
        return text(rng)
    if kind == 5:
        return rng.choice([None, ..., rng.randbytes(rng.randrange(5))])
    size = rng.randrange(4)
    if kind < 8 or hashable:
        return tuple(value(rng, depth - 1, hashable) for _ in range(size))
    if kind < 10:
        return [value(rng, depth - 1) for _ in range(size)]
    if kind == 10:
        return {value(rng, depth - 1, True) for _ in range(size)}
    return {value(rng, depth - 1, True): value(rng, depth - 1) for _ in range(size)}


def blank(rng):
    return rng.choice(["", "", "", " ", "  ", "\t", "\n", " # c\n"])


def integer(rng, it):
    sign, it = ("-", -it) if it < 0 else ("", it)
    digits = rng.choice([str, str, hex, oct, bin, lambda i: f"{i:_}", lambda i: f"{i:#_X}"])(it)
    return sign + digits


def quoted(rng, it):
    if isinstance(it, str) and rng.random() < 0.3 and "\x00" not in it:
        quote = rng.choice(["'''", '"""'])
        body = it.replace("\\", "\\\\").replace(quote[0], "\\" + quote[0]).replace("\r", "\\r")
        return rng.choice(["", "u", "U"]) + quote + body + quote
    if isinstance(it, str) and rng.random() < 0.3:
        return '"' + "".join(rng.choice([f"\\U{ord(c):08x}", f"\\{ord(c):03o}" if ord(c) < 512 else f"\\U{ord(c):08X}"]) for c in it) + '"'
    whole = repr(it)
    return f"{quoted(rng, it[:2])} {quoted(rng, it[2:])}" if len(it) > 2 and rng.random() < 0.2 else whole


def spelled(rng, it):
    """The value as somebody could write it in brackets."""
    if isinstance(it, int) and not isinstance(it, bool):
        return integer(rng, it)
    if isinstance(it, (str, bytes)):
        return quoted(rng, it)
    if isinstance(it, (tuple, list)):
        opening, closing = "()" if isinstance(it, tuple) else "[]"
        return brackets(rng, opening, [spelled(rng, item) for item in it], closing, isinstance(it, tuple) and len(it) == 1)
    if isinstance(it, dict):
        return brackets(rng, "{", [f"{spelled(rng, key)}{blank(rng)}:{blank(rng)}{spelled(rng, item)}" for key, item in it.items()], "}", False)
    if isinstance(it, set) and it:
        return brackets(rng, "{", [spelled(rng, item) for item in it], "}", False)
    return "..." if it is ... else repr(it)


def brackets(rng, opening, items, closing, needs_comma):
    comma = "," if needs_comma or (items and rng.random() < 0.2) else ""
    return opening + blank(rng) + f"{blank(rng)},{blank(rng)}".join(items) + comma + blank(rng) + closing


def spoiled(rng, source):
    at = rng.randrange(len(source) + 1)
    added = rng.choice(["", rng.choice("'\"\\()[]{},:.+-_#1ejx \n\t")])
    return source[:at] + added + source[at + rng.randrange(2) :]


def read(source):
    """The value of a literal; raises for anything else."""
    tree = ast.parse(source.lstrip(" \t"), mode="eval")
    for node in ast.walk(tree):
        is_empty_set = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "set" and not node.args and not node.keywords
        if not is_empty_set and (not isinstance(node, KNOWN) or (isinstance(node, ast.Name) and node.id not in NAMES and node.id != "Ellipsis")):
            raise ValueError("no literal")
        if isinstance(node, ast.Name) and node.id == "set" and not any(isinstance(n, ast.Call) and n.func is node for n in ast.walk(tree)):
            raise ValueError("the type, no value")
    return eval(compile(tree, "literal", "eval"), {"__builtins__": {}, "Ellipsis": ..., **NAMES})


def encoded(it):
    """A value as JSON, with its type; sets are sorted."""
    if it is None or it is ... or isinstance(it, bool):
        return [type(it).__name__, str(it)]
    if isinstance(it, int):
        return ["int", f"{it:x}"]
    if isinstance(it, float):
        return ["float", "nan" if it != it else struct.pack(">d", it).hex()]
    if isinstance(it, complex):
        return ["complex", encoded(it.real), encoded(it.imag)]
    if isinstance(it, (str, bytes)):
        return [type(it).__name__, [ord(c) for c in it] if isinstance(it, str) else list(it)]
    if isinstance(it, dict):
        return ["dict", [[encoded(key), encoded(item)] for key, item in it.items()]]
    items = [encoded(item) for item in it]
    return [type(it).__name__, sorted(items, key=json.dumps) if isinstance(it, set) else items]


def case(source, must):
    try:
        return {"text": source, "value": encoded(read(source)), "must": must}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError, OverflowError):
        return {"text": source, "value": None, "must": False}


def cousin(rng, it):
    """A value that is often equal to the given one, and often not of the same type."""
    kind = rng.randrange(5)
    if kind == 0 and isinstance(it, (int, float)) and abs(it) < 1e300:
        return rng.choice([float, complex])(it)
    if kind == 1 and isinstance(it, (bool, float)) and it == it and abs(it) != float("inf"):
        return int(it)
    if kind == 2 and isinstance(it, (tuple, list)):
        return rng.choice([tuple, list])(cousin(rng, item) for item in it)
    if isinstance(it, (tuple, list)):
        return type(it)(cousin(rng, item) for item in it)
    if isinstance(it, dict):
        entries = list(it.items())
        rng.shuffle(entries)
        return {key: cousin(rng, item) for key, item in entries}
    if isinstance(it, set):
        return set(rng.sample(sorted(it, key=repr), len(it)))
    return it if rng.random() < 0.9 else value(rng, 1)


def pair(rng):
    first = value(rng, 3)
    sources = [repr(first), repr(cousin(rng, first))]
    values = [read(source) for source in sources]
    return {"texts": sources, "equal": values[0] == separate(values[1])}


def separate(it):
    """The same value with a NaN of its own for each NaN: two literals share no object."""
    if isinstance(it, float) and it != it:
        return float("nan")
    if isinstance(it, (tuple, list, set)):
        return type(it)(separate(item) for item in it)
    return {separate(key): separate(item) for key, item in it.items()} if isinstance(it, dict) else it


def main():
    rng = random.Random(SEED)
    values = [value(rng, 3) for _ in range(450)]
    spelling = [spelled(rng, it) for it in values]
    # Python's repr of a complex number with a negative zero reads back as another value, so that texts decide and not the values that they came from.
    cases = [case(source, True) for source in [*map(repr, values), *spelling]]
    cases += [case(spoiled(rng, rng.choice(spelling)), False) for _ in range(700)] + [case(source, False) for source in EXTRA]
    document = {
        "producer": "test/golden/producers/literals.py",
        "versions": {"python": platform.python_version()},
        "seed": SEED,
        "cases": cases,
        "pairs": [pair(rng) for _ in range(700)],
    }
    rows = ",\n".join(f' "{name}": [\n  ' + ",\n  ".join(map(json.dumps, it)) + "\n ]" if isinstance(it, list) else f' "{name}": {json.dumps(it)}' for name, it in document.items())
    path = pathlib.Path(__file__).parents[3] / "test/golden/literals.json"
    path.write_text(f"{{\n{rows}\n}}\n")
    read_back = json.loads(path.read_text())
    print(path, len(cases), "texts,", sum(c["value"] is not None for c in read_back["cases"]), "values;", sum(p["equal"] for p in read_back["pairs"]), "equal pairs")


main()
