"""The mini-Python of the nano coder: functions of one line over a string of digits or a small integer. Standard library only.

A program is `def f(a):STATEMENT;STATEMENT;...return a` with one to five statements, and real Python. Values are strings of 1 to 6 digits or integers
from 0 to 39. Every program ends for every value.
"""

import functools
from dataclasses import dataclass

DIGITS = "0123456789"
LONGEST_STRING = 6
LARGEST_INTEGER = 39


@dataclass(frozen=True)
class Statement:
    """One statement of a program, without its semicolon."""

    name: str  # name of the operation in messages
    text: str
    misread: str  # the same statement, misread
    argument: bool = False  # true if the name leaves an argument of the text open


def string_statement(rng):
    d, e = rng.sample(DIGITS, 2)
    return rng.choice(
        [
            Statement("reverse", "a=a[::-1]", "a=a"),
            Statement("behead", "a=a[1:]", "a=a[:-1]"),
            Statement("curtail", "a=a[:-1]", "a=a[1:]"),
            Statement("append", f"a=a+'{d}'", f"a='{d}'+a", True),
            Statement("prepend", f"a='{d}'+a", f"a=a+'{d}'", True),
            Statement("rotate", "a=a[1:]+a[:1]", "a=a[-1:]+a[:-1]"),
            Statement("replace", f"a=a.replace('{d}','{e}')", "a=a", True),
        ]
    )


def integer_statement(rng):
    k, m = rng.randint(1, 5), rng.randint(2, 9)
    return rng.choice(
        [
            Statement("add", f"a=a+{k}", f"a=a+{k - 1}", True),
            Statement("sub", f"a=a-{k}", f"a=a+{k}", True),
            Statement("double", "a=a*2", "a=a+2"),
            Statement("mod", f"a=a%{m}", f"a=a//{m}", True),
            Statement("half", "a=a//2", "a=a-2"),
        ]
    )


def undo(statement, value):
    """A value that the statement turns into `value`, if there is one. Text that it dropped comes back as the digit 0."""
    text = statement.text
    return {
        "reverse": lambda: value[::-1],
        "behead": lambda: "0" + value,
        "curtail": lambda: value + "0",
        "append": lambda: value[:-1],
        "prepend": lambda: value[1:],
        "rotate": lambda: value[-1:] + value[:-1],
        "replace": lambda: value,
        "add": lambda: value - int(text[4:]),
        "sub": lambda: value + int(text[4:]),
        "double": lambda: value // 2,
        "mod": lambda: value,
        "half": lambda: value * 2,
    }[statement.name]()


@functools.lru_cache(maxsize=100_000)
def run_statement(text, value):
    names = {"a": value}
    exec(text, {"__builtins__": {}}, names)
    return names["a"]


def run_all(statements, value):
    for statement in statements:
        value = run_statement(statement.text, value)
    return value


def in_range(value):
    return 1 <= len(value) <= LONGEST_STRING if isinstance(value, str) else 0 <= value <= LARGEST_INTEGER


def draw_value(rng, like):
    """A value of the type of `like`: 2 to 4 digits, or an integer from 0 to 19."""
    return "".join(rng.choices(DIGITS, k=rng.randint(2, 4))) if isinstance(like, str) else rng.randint(0, 19)


@dataclass(frozen=True)
class Program:
    statements: tuple
    value: object  # the input
    values: tuple  # after each statement

    @property
    def code(self):
        return program_code(s.text for s in self.statements)

    @property
    def output(self):
        return self.values[-1]

    @property
    def names(self):
        return " ".join(s.name for s in self.statements)


def program_code(texts):
    return "def f(a):" + "".join(f"{text};" for text in texts) + "return a"


def trace(statements, value):
    """The values after each statement, or None if one leaves the range."""
    values = []
    for statement in statements:
        value = run_statement(statement.text, value)
        if not in_range(value):
            return None
        values.append(value)
    return tuple(values)


def draw_program(rng, length, forbidden=frozenset(), strings=0.5):
    """A program of `length` statements whose code is not in `forbidden`; `strings` is the share of programs over strings."""
    while True:
        draw, like = (string_statement, "") if rng.random() < strings else (integer_statement, 0)
        statements = tuple(draw(rng) for _ in range(length))
        value = draw_value(rng, like)
        values = trace(statements, value)
        if values is not None and program_code(s.text for s in statements) not in forbidden:
            return Program(statements, value, values)


def undone(statements, value):
    """[(statement, value before it)] from the last to the first, ending at an input; None if a value leaves the range."""
    steps = []
    for statement in reversed(statements):
        value = undo(statement, value)
        if not in_range(value):
            return None
        steps.append((statement, value))
    return steps


def is_invertible(program):
    """True if undoing statement by statement finds an input of the program's output."""
    steps = undone(program.statements, program.output)
    return steps is not None and run_all(program.statements, steps[-1][1]) == program.output


def draw_invertible(rng, length, forbidden=frozenset()):
    while True:
        program = draw_program(rng, length, forbidden)
        if is_invertible(program):
            return program


def pick(rng, weights):
    return rng.choices(list(weights), weights=list(weights.values()))[0]
