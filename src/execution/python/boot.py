"""Arguments: the descriptor for replies, then names and sources of modules, loaded in their order; the last one serves."""

import sys


def load(name, source):
    module = type(sys)(name)
    sys.modules[name] = module
    exec(compile(source, f'{name}.py', 'exec', dont_inherit=True), module.__dict__)


sys.replies, *arguments = sys.argv[1:]
sys.argv[1:] = []
for index in range(0, len(arguments), 2):
    load(arguments[index], arguments[index + 1])
