"""
Runs programs. A job: a token, a mode, the longest repr, the program, the arguments of each call as a string. The mode is `shared` (among plain programs), `own`
(this interpreter runs nothing else) or `apart` (own, for arguments that may do anything). A reply: the token, then one of
- `ran` with two fields a call: the exception's class or nothing, and its message or the repr;
- `own`: the job must not share an interpreter;
- `single`: neither may its calls, because the program is not plain;
- `spent`: as `own`, and this interpreter must end, because a later program could see what it has loaded;
- `apart` with numbers of calls: their arguments must be evaluated apart from the program, or they could change it.
Nothing of a job runs before all of it was checked.
"""

import gc
import sys

import channel
from plain import LONGEST, call_of, is_harmless_call, is_plain, is_plain_call

ONLY_AST = 0x400
MOST_PROGRAMS = 64
# Loaded for the division of long integers: the amount of stack that this takes shows whether an earlier program divided.
LATE = '_pylong'
# No text can name it, so arguments know no function of the program.
CALLEE = ' f'

# Compiled plain programs by their text, and None for others.
programs = {}


def serve():
    # Objects loaded by now stay; the garbage of jobs is collected after many of them.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    while (fields := channel.receive()) is not None:
        token, mode, length, code, *calls = fields
        texts = [call.decode() for call in calls]
        channel.send([token, *run(mode.decode(), int(length), code.decode(), texts)])


def run(mode, length, code, texts):
    calls = [parsed_call(text) for text in texts]
    if mode != 'apart' and (apart := [str(index) for index, call in enumerate(calls) if not is_error(call) and not is_harmless_call(call)]):
        return ['apart', *apart]
    if mode == 'apart':
        program = own_program(code)
    else:
        program = shared_program(code) if all(is_error(call) or is_plain_call(call) for call in calls) else None
        # One call of such a program could leave something that the next one reads.
        if program is None and len(calls) > 1:
            return ['single']
        if program is None and mode == 'shared':
            return ['own']
        if program is None:
            program = own_program(code)
    if is_error(program):
        return ['ran', *program * len(calls)]
    results = []
    for call in calls:
        result = call if is_error(call) else called(length, program, call)
        if LATE in sys.modules and (mode == 'shared' or len(calls) > 1):
            return ['spent' if mode == 'shared' else 'single']
        # A program that exhausts memory or the stack can see what earlier ones left there.
        if result[0] in ('MemoryError', 'RecursionError') and (mode == 'shared' or len(calls) > 1):
            return ['single'] if len(calls) > 1 else ['own']
        results += result
    return ['ran', *results]


def is_error(value):
    return type(value) is list


def parsed_call(text):
    """The tree of `f(text)`, or the fields of an error."""
    try:
        call = call_of(compile(f'f({text})', '<call>', 'eval', ONLY_AST, dont_inherit=True))
        call.body.func.id = CALLEE
        return call
    except BaseException as error:
        return failure(error)


def own_program(code):
    try:
        return compile(code, '<program>', 'exec', dont_inherit=True)
    except BaseException as error:
        return failure(error)


def shared_program(code):
    """The compiled program, or the fields of an error, or None if the program is not plain."""
    if len(code) > LONGEST:
        return None
    if code not in programs:
        if len(programs) == MOST_PROGRAMS:
            programs.clear()
        programs[code] = checked_program(code)
    return programs[code]


def checked_program(code):
    try:
        tree = compile(code, '<program>', 'exec', ONLY_AST, dont_inherit=True)
        # From the text again: that is faster than from the tree.
        return compile(code, '<program>', 'exec', dont_inherit=True) if is_plain(tree) else None
    except (MemoryError, RecursionError):
        return None
    except BaseException as error:
        return failure(error)


def called(length, program, call):
    try:
        space = {'__name__': 'program'}
        exec(program, space)
        if 'f' not in space:
            raise NameError("name 'f' is not defined")
        # A comprehension binds its names for itself alone; outside of it they would be the program's.
        text = repr(eval(compile(call, '<call>', 'eval', dont_inherit=True), {'__name__': 'program', CALLEE: space['f']}))
        if str.__len__(text) > length:
            return ['ReprTooLong', f'The repr of the value has {str.__len__(text)} characters. The limit is {length}.']
        return ['', str.__str__(text)]
    except BaseException as error:
        return failure(error)
    finally:
        flush()


def failure(error):
    try:
        name = str(type(error).__name__)
        # An error without a name would look like a value.
        return [name if str.isidentifier(name) else 'Exception', str(error)[:200]]
    except BaseException:
        return ['Exception', '']


def flush():
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        pass


serve()
