"""Replies with good and bad habits, which the base learns: one good reply in five, and several ways to fail. Standard library only."""

from dataclasses import replace

from .language import DIGITS, draw_value, pick, program_code, run_all, run_statement, undone
from .texts import INPUTS, grading, proposed_inputs, proposed_program, solution

# Shares of the habits of a base: "direct" guesses without a thought, "skips" leaves a statement out, "misreads" takes some for others, "broken" leaves its
# tag open.
SOLVER_HABITS = {"good": 0.20, "direct": 0.40, "skips": 0.13, "misreads": 0.12, "broken": 0.15}
CRITIC_HABITS = {"good": 0.50, "random": 0.30, "open": 0.10, "bare": 0.10}
GOOD_ONLY = {"good": 1.0}
MISREAD_SHARE = 0.6  # share of the statements of a reply that misreads


def think_text(steps):
    """`steps` are [(statement, value)]: every statement with the value after it, or before it if the thought goes backwards."""
    return "".join(f"{statement.text};{value};" for statement, value in steps)


def without_one(rng, statements):
    dropped = rng.randrange(len(statements))
    return statements[:dropped] + statements[dropped + 1 :]


def as_written(statement):
    return statement.text


def misreader(rng):
    """Reads some statements as other ones."""
    return lambda statement: statement.misread if rng.random() < MISREAD_SHARE else statement.text


def forwards(statements, value, read=as_written):
    """([(statement, value after it)], last value); `read` returns the text that is run in a statement's place."""
    steps = []
    for statement in statements:
        value = run_statement(read(statement), value)
        steps.append((statement, value))
    return steps, value


def backwards(statements, value):
    steps = undone(statements, value) or []
    return steps, steps[-1][1] if steps else value


def output_solution(rng, program, habit):
    """A reply to a code_o task: the trace, then the output."""
    if habit == "direct":
        return solution("", repr(run_all(without_one(rng, program.statements), program.value)))
    statements = without_one(rng, program.statements) if habit == "skips" else program.statements
    steps, value = forwards(statements, program.value, misreader(rng) if habit == "misreads" else as_written)
    return solution(think_text(steps), repr(value), habit != "broken")


def input_solution(rng, program, habit):
    """A reply to a code_i task: undoes the statements from the last to the first."""
    statements = program.statements
    if habit == "direct":
        return solution("", repr(backwards(without_one(rng, statements), program.output)[1]))
    if habit == "skips":
        statements = without_one(rng, statements)
    steps, value = backwards(statements, program.output)
    if habit == "misreads":  # stops half-way and returns the output
        steps, value = steps[: len(steps) // 2], program.output
    return solution(think_text(steps), repr(value), habit != "broken")


def induced(program):
    """[(statement, value before it)] from the last statement to the first, as they follow from the names and one example.

    Text that a string's statement dropped comes back as 0, so a character that was appended and dropped is a 0 too. Integers keep the true values. None if
    a value leaves the range.
    """
    if not isinstance(program.value, str):
        return list(reversed(list(zip(program.statements, (program.value, *program.values[:-1]), strict=True))))
    value, found = program.output, []
    for statement in reversed(program.statements):
        if statement.name == "append":
            statement = replace(statement, text=f"a=a+'{value[-1]}'")
        elif statement.name == "prepend":
            statement = replace(statement, text=f"a='{value[0]}'+a")
        steps = undone((statement,), value)
        if steps is None:
            return None
        found += steps
        value = steps[0][1]
    return found


def is_inducible(program, inputs):
    """True if `induced` finds a function that agrees with the program on all inputs."""
    steps = induced(program)
    if steps is None:
        return False
    statements = [statement for statement, _ in reversed(steps)]
    return all(run_all(statements, value) == run_all(program.statements, value) for value in inputs)


def other_arguments(rng, statement):
    """The statement with guessed arguments."""
    text = "".join(rng.choice(DIGITS) if c.isdigit() else c for c in statement.text) if statement.argument else statement.text
    return replace(statement, text=text.replace("%0", "%1"))


def function_solution(rng, program, habit):
    """A reply to a code_f task: from the shown output back to the shown input, then the function."""
    steps = induced(program)
    if habit == "direct":
        statements = [other_arguments(rng, s) for s in program.statements]
        if not any(s.argument for s in statements):
            statements = list(without_one(rng, program.statements))
        return solution("", program_code(s.text for s in statements))
    if habit == "skips":
        dropped = rng.randrange(len(steps))
        steps = steps[:dropped] + steps[dropped + 1 :]
    texts = [s.misread if habit == "misreads" and rng.random() < MISREAD_SHARE else s.text for s, _ in reversed(steps)]
    return solution(think_text(steps), program_code(texts), habit != "broken")


def program_proposal(rng, program, habit):
    code, value = program.code, repr(program.value)
    if habit == "type":
        value = str(rng.randint(0, 19)) if isinstance(program.value, str) else f"'{rng.randint(10, 999)}'"
    elif habit == "syntax":
        code = code.replace("'", "", 1) if "'" in code else code.replace("=", "", 1)
    elif habit == "banned":
        code = code.replace("def f(a):", "def f(a):import random;")
    return proposed_program(code, None if habit == "missing" else value)


def inputs_proposal(rng, program, inputs, habit):
    if habit == "type":
        wrong = draw_value(rng, 0 if isinstance(program.value, str) else "")
        inputs = [wrong if rng.random() < 0.5 else value for value in inputs[:-1]] + [wrong]
    elif habit == "few":
        inputs = inputs[: rng.randint(1, INPUTS - 1)]
    return proposed_inputs([repr(value) for value in inputs], None if habit == "missing" else program.names)


def critic_reply(rng, steps, holds, habit):
    """A grading of a thought; `holds` is true if its steps follow from each other."""
    if habit == "random":
        rationale, grade = rng.choice(["short", "clear steps", "a wrong step"]), rng.choice([0.1, 0.25, 0.5, 0.75, 0.9])
    else:
        rationale = ("clear steps" if len(steps) > 1 else "short") if holds else "a wrong step"
        grade = rng.choice([0.75, 0.9] if len(steps) > 1 else [0.5, 0.75]) if holds else rng.choice([0.1, 0.25])
    text = grading(rationale, grade)
    return text[:-1] if habit == "open" else rationale if habit == "bare" else text


def solver_habit(rng, only_good):
    return pick(rng, GOOD_ONLY if only_good else SOLVER_HABITS)
