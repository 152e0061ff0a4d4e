"""Runs programs of the mini-language and reads replies, for probes. Standard library only.

Programs run in this process behind an allow-list of syntax, which suffices only for texts of a nano model: the package has real sandboxes.
"""

import ast
import functools
import json

from .texts import INPUTS

LONGEST_CODE = 300
LONGEST_REPR = 40
SYNTAX = (
    "Module Expression FunctionDef arguments arg Assign AugAssign Return Expr Name Load Store Constant BinOp UnaryOp Add Sub Mult Mod FloorDiv USub "
    "Subscript Slice Call Attribute List Tuple"
)
ALLOWED = tuple(getattr(ast, name) for name in SYNTAX.split())
CALLS = {"len": len, "str": str, "int": int, "max": max, "min": min, "sum": sum, "sorted": sorted}
METHODS = {"join", "replace", "upper", "lower"}


def is_allowed(node):
    if not isinstance(node, ALLOWED):
        return False
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (str, int)) and len(repr(node.value)) <= LONGEST_REPR
    if isinstance(node, ast.Attribute):
        return node.attr in METHODS
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in CALLS
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = [side.value for side in (node.left, node.right) if isinstance(side, ast.Constant) and isinstance(side.value, int)]
        return all(abs(side) < 100 for side in sides)
    return True


@functools.lru_cache(maxsize=50_000)
def compiled(code):
    """The code object of one function f; None for anything else."""
    try:
        tree = ast.parse(code)
        is_function = len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef) and tree.body[0].name == "f"
        if is_function and len(code) <= LONGEST_CODE and all(map(is_allowed, ast.walk(tree))):
            return compile(tree, "<program>", "exec")
    except Exception:
        pass
    return None


@functools.lru_cache(maxsize=200_000)
def execute(code, value):
    """The repr of f(value), both as the model wrote them; None if the program or the input is not valid."""
    program = compiled(code)
    if program is None or len(value) > LONGEST_REPR:
        return None
    names = {"__builtins__": CALLS}
    try:
        exec(program, names)
        result = repr(names["f"](ast.literal_eval(value)))
    except Exception:
        return None
    return result if len(result) <= LONGEST_REPR and result != "None" else None


def between(text, tag):
    start, end = f"<{tag}>", f"</{tag}>"
    if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
        return None
    return text[text.index(start) + len(start) : text.index(end)]


def read_program(text):
    """(code, input, output) of a valid proposal of kind o or i, else None."""
    code, value = between(text, "code"), between(text, "input")
    output = None if code is None or value is None else execute(code, value)
    return None if output is None else (code, value, output)


def read_inputs(code, text):
    """(inputs, outputs, message) of a valid proposal of kind f, else None."""
    inputs = [part.split("</input>")[0] for part in text.split("<input>")[1:]]
    outputs, message = [execute(code, value) for value in inputs], between(text, "message")
    is_valid = len(inputs) == INPUTS == text.count("</input>") and message and None not in outputs and len(set(inputs)) == INPUTS
    return (inputs, outputs, message) if is_valid else None


def judge(task, text):
    """(has the format, is right) of a reply to a task (a row of datasets/mini-python)."""
    think, answer = between(text, "think"), between(text, "answer")
    if think is None or answer is None or not text.startswith("<think>") or not text.endswith("</answer>"):
        return False, False
    if task["kind"] == "code_f":
        hidden = slice(INPUTS // 2, None)
        return True, [execute(answer, value) for value in task["inputs"][hidden]] == task["outputs"][hidden]
    if task["kind"] == "code_i":
        return True, execute(task["code"], answer) == task["output"]
    try:
        return True, ast.literal_eval(answer) == ast.literal_eval(task["output"])
    except Exception:
        return True, False


def read_grade(text):
    """The grade of a critique, 0 to 1; None for a malformed one."""
    try:
        read = json.loads(text)
        grade = read["grade"]
        return grade if isinstance(read["rationale"], str) and isinstance(grade, (int, float)) and 0 <= grade <= 1 else None
    except (ValueError, KeyError, TypeError):
        return None
