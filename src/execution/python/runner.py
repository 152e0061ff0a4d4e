"""
Runs programs. A job: a token, `shared` or `own`, the longest repr, the program, a text of arguments for each call. A reply: the token, then
`ran` with two fields a call (the exception's class or nothing; the repr or the message), or `own` if the job needs an interpreter of its own.
"""

import sys

import channel
from plain import call_of, is_plain, is_plain_call

ONLY_AST = 0x400


def serve():
    while (fields := channel.receive()) is not None:
        token, mode, length, code, *calls = fields
        code, calls = code.decode(), [call.decode() for call in calls]
        channel.send([token, *run(mode == b'shared', int(length), code, calls)])


def run(shared, length, code, calls):
    try:
        program = _program(shared, code)
    except BaseException as error:
        return ['ran', *_failure(error) * len(calls)]
    if program is None:
        return ['own']
    results = []
    for call in calls:
        result = _result(shared, length, program, call)
        # A program that exhausts memory or the stack can see what earlier ones left there.
        if result is None or (shared and result[0] in ('MemoryError', 'RecursionError')):
            return ['own']
        results += result
    return ['ran', *results]


def _program(shared, code):
    """The compiled program; None if it may not share this interpreter."""
    if not shared:
        return compile(code, '<program>', 'exec', dont_inherit=True)
    tree = compile(code, '<program>', 'exec', ONLY_AST, dont_inherit=True)
    return compile(tree, '<program>', 'exec', dont_inherit=True) if is_plain(tree) else None


def _result(shared, length, program, call):
    try:
        tree = call_of(compile(f'f({call})', '<call>', 'eval', ONLY_AST, dont_inherit=True))
        if shared and not is_plain_call(tree):
            return None
        space = {'__name__': 'program'}
        exec(program, space)
        text = repr(eval(compile(tree, '<call>', 'eval', dont_inherit=True), space))
        if str.__len__(text) > length:
            return ['ReprTooLong', f'The repr of the value has {str.__len__(text)} characters. The limit is {length}.']
        return ['', str.__str__(text)]
    except BaseException as error:
        return _failure(error)
    finally:
        _flush()


def _failure(error):
    try:
        return [str(type(error).__name__), str(error)[:200]]
    except BaseException:
        return ['Exception', '']


def _flush():
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        pass


serve()
