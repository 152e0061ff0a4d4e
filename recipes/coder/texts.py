"""The prompts that the environment self-play-code sends with `prompt = "mini"`, and the replies that it reads. Standard library only."""

import json

TAGS = [f"<{slash}{name}>" for name in ("code", "input", "output", "message", "think", "answer") for slash in ("", "/")]
INPUTS = 4  # number for a code_f task: the first half is shown to the solver


def propose(kind, code=None):
    """`kind` is o, i or f; a proposal of kind f is about `code`."""
    return f"propose {kind}" + (f"\n<code>{code}</code>" if kind == "f" else "")


def solve_output(code, value):
    return f"solve o\n<code>{code}</code><input>{value}</input>"


def solve_input(code, output):
    return f"solve i\n<code>{code}</code><output>{output}</output>"


def solve_function(pairs, message):
    """`pairs` are the inputs and outputs that the solver may see, as reprs."""
    shown = "".join(f"<input>{value}</input><output>{output}</output>" for value, output in pairs)
    return f"solve f\n{shown}<message>{message}</message>"


def critique(think):
    return f"critique\n<think>{think}</think>"


def proposed_program(code, value):
    return f"<code>{code}</code>" + ("" if value is None else f"<input>{value}</input>")


def proposed_inputs(inputs, message):
    return "".join(f"<input>{value}</input>" for value in inputs) + ("" if message is None else f"<message>{message}</message>")


def solution(think, answer, closed=True):
    return f"<think>{think}</think><answer>{answer}" + ("</answer>" if closed else "")


def grading(rationale, grade):
    return json.dumps({"rationale": rationale, "grade": grade})
