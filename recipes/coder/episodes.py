"""Episodes of pre-training: a prompt and a reply, for both roles, three kinds of task and the critique. Standard library only."""

from dataclasses import dataclass

from .language import draw_invertible, draw_program, draw_value, pick, trace
from .replies import (
    CRITIC_HABITS,
    GOOD_ONLY,
    as_written,
    critic_reply,
    forwards,
    function_solution,
    input_solution,
    inputs_proposal,
    is_inducible,
    misreader,
    output_solution,
    program_proposal,
    solver_habit,
    think_text,
)
from .texts import INPUTS, critique, propose, solve_function, solve_input, solve_output

SHARES = {"propose": 0.09, "propose f": 0.06, "critique": 0.05, "solve o": 0.34, "solve i": 0.27, "solve f": 0.19}
SOLVED_LENGTHS = {1: 0.12, 2: 0.22, 3: 0.26, 4: 0.23, 5: 0.17}
INDUCED_LENGTHS = {1: 0.20, 2: 0.40, 3: 0.40}
GENERAL_SHARE = 0.25  # share of code_f episodes about any program; the examples of the others determine their arguments
SHARE_OF_STRINGS = 0.75
STRING_NAMES = {"reverse", "behead", "curtail", "append", "prepend", "rotate", "replace"}


@dataclass(frozen=True)
class Proposer:
    lengths: dict  # shares of proposals by their number of statements
    programs: dict  # shares of habits of kinds o and i
    inputs: dict  # shares of habits of kind f


# A base that proposes some longer programs finds sooner that they are rewarded. Types that do not fit are the last fault that self-play mends, so it has few of them.
PROPOSERS = {
    "short": Proposer(
        lengths={1: 0.80, 2: 0.16, 3: 0.04},
        programs={"good": 0.50, "type": 0.16, "syntax": 0.12, "banned": 0.10, "missing": 0.12},
        inputs={"good": 0.50, "type": 0.18, "few": 0.16, "missing": 0.16},
    ),
    "mixed": Proposer(
        lengths={1: 0.52, 2: 0.26, 3: 0.13, 4: 0.06, 5: 0.03},
        programs={"good": 0.52, "type": 0.08, "syntax": 0.10, "banned": 0.14, "missing": 0.16},
        inputs={"good": 0.54, "type": 0.08, "few": 0.18, "missing": 0.20},
    ),
}


def tells_its_arguments(statements):
    """True if names and examples leave one argument to find at a time, so that a thought from the output backwards finds it."""
    names = [s.name for s in statements]
    if names[0] in STRING_NAMES:
        return "replace" not in names or ("replace" not in names[1:] and not {"behead", "curtail"} & set(names))
    unknown = [at for at, s in enumerate(statements) if s.argument]
    return len(unknown) <= 1 and "mod" not in names and (not unknown or "half" not in names[unknown[0] :])


def shows_its_effect(program):
    """A replacement is visible only where the first input has the digit."""
    before = (program.value, *program.values[:-1])
    return all(value != old for s, old, value in zip(program.statements, before, program.values, strict=True) if s.name == "replace")


def draw_inputs(rng, program, count=INPUTS):
    """Different inputs whose values stay in the range, the program's own first; None if they are hard to find."""
    inputs = [program.value]
    for _ in range(20 * count):
        value = draw_value(rng, program.value)
        if len(inputs) < count and value not in inputs and trace(program.statements, value) is not None:
            inputs.append(value)
    return inputs if len(inputs) == count else None


def draw_induction(rng, length, forbidden=frozenset(), general=0.0):
    """(program, inputs) of a code_f task; `general` is the share of programs whose examples need not determine their arguments."""
    while True:
        program = draw_program(rng, length, forbidden, strings=SHARE_OF_STRINGS)
        is_general = rng.random() < general
        if not is_general and not (tells_its_arguments(program.statements) and shows_its_effect(program)):
            continue
        inputs = draw_inputs(rng, program)
        if inputs is not None and is_inducible(program, inputs):
            return program, inputs


def induction_prompt(program, inputs):
    shown = inputs[: INPUTS // 2]
    outputs = [trace(program.statements, value)[-1] for value in shown]
    return solve_function([(repr(value), repr(output)) for value, output in zip(shown, outputs, strict=True)], program.names)


def critique_episode(rng, only_good, forbidden):
    """Half of the thoughts misread a statement; the critic sees the values, not the task."""
    program = draw_program(rng, pick(rng, SOLVED_LENGTHS), forbidden)
    steps, _ = forwards(program.statements, program.value, misreader(rng) if rng.random() < 0.5 else as_written)
    holds = all(value == true for (_, value), true in zip(steps, program.values, strict=True))
    return critique(think_text(steps)), critic_reply(rng, steps, holds, pick(rng, GOOD_ONLY if only_good else CRITIC_HABITS))


def propose_episode(rng, only_good, forbidden, proposer=PROPOSERS["short"]):
    program = draw_program(rng, pick(rng, proposer.lengths), forbidden)
    return propose(rng.choice("oi")), program_proposal(rng, program, pick(rng, GOOD_ONLY if only_good else proposer.programs))


def inputs_episode(rng, only_good, forbidden, proposer=PROPOSERS["short"]):
    while True:
        program = draw_program(rng, pick(rng, SOLVED_LENGTHS), forbidden)
        inputs = draw_inputs(rng, program)
        if inputs is not None:
            return propose("f", program.code), inputs_proposal(rng, program, inputs, pick(rng, GOOD_ONLY if only_good else proposer.inputs))


def output_episode(rng, only_good, forbidden):
    program = draw_program(rng, pick(rng, SOLVED_LENGTHS), forbidden)
    return solve_output(program.code, repr(program.value)), output_solution(rng, program, solver_habit(rng, only_good))


def input_episode(rng, only_good, forbidden):
    program = draw_invertible(rng, pick(rng, SOLVED_LENGTHS), forbidden)
    return solve_input(program.code, repr(program.output)), input_solution(rng, program, solver_habit(rng, only_good))


def function_episode(rng, only_good, forbidden):
    program, inputs = draw_induction(rng, pick(rng, INDUCED_LENGTHS), forbidden, GENERAL_SHARE)
    return induction_prompt(program, inputs), function_solution(rng, program, solver_habit(rng, only_good))


EPISODES = {
    "propose": propose_episode,
    "propose f": inputs_episode,
    "critique": critique_episode,
    "solve o": output_episode,
    "solve i": input_episode,
    "solve f": function_episode,
}


def draw_episode(rng, only_good, forbidden=frozenset(), proposer="short"):
    """(prompt, reply); `forbidden` holds the code of programs that no episode may show, `proposer` names one of PROPOSERS."""
    name = pick(rng, SHARES)
    options = {"proposer": PROPOSERS[proposer]} if name.startswith("propose") else {}
    return EPISODES[name](rng, only_good, forbidden, **options)
