"""
Arguments: the descriptor for replies; limits of the process as `name=number` (of a process of its own); `source` or `code`; then names and texts of
modules, which are loaded in their order; the last one serves. The texts are sources, or compiled code as hexadecimal digits, which loads in a fraction
of the time. From sources it makes the code. The first message says that it started: `code` and the code, or `ready`.
"""

import marshal
import sys


def load(name, code):
    module = type(sys)(name)
    sys.modules[name] = module
    exec(code, module.__dict__)


def compiled(name, text):
    return marshal.loads(bytes.fromhex(text)) if form == 'code' else compile(text, f'{name}.py', 'exec', dont_inherit=True)


def limit(limits):
    import os
    import resource

    # The starter of this process sets the seed of hashes as a variable. Programs find no variables and import nothing from the current directory.
    os.environ.clear()
    sys.path[:] = [path for path in sys.path if path]
    for name, value in (each.split('=') for each in limits.split()):
        # Some systems lack a limit, others set a lower one.
        try:
            resource.setrlimit(getattr(resource, f'RLIMIT_{name}'), (int(value), int(value)))
        except (AttributeError, ValueError, OSError):
            pass


sys.replies, limits, form, *arguments = sys.argv[1:]
sys.argv[1:] = []
if limits:
    limit(limits)
modules = [(arguments[index], compiled(*arguments[index : index + 2])) for index in range(0, len(arguments), 2)]
for name, code in modules[:-1]:
    load(name, code)
sys.modules['channel'].send(['code', *(text for name, code in modules for text in (name, marshal.dumps(code).hex()))] if form == 'source' else ['ready'])
load(*modules[-1])
