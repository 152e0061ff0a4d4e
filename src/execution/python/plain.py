"""
Which programs may share an interpreter: those that can neither change nor observe anything in it but their own values. The rule is a list of what is
allowed, over the syntax tree alone; whatever it does not know is not plain, which costs a new interpreter and nothing else.

What a plain program cannot do, and by what:
- reach another object than its own values: no dunder, no attribute but the listed methods, called at once; no builtin and no module but the listed;
- see what a library remembers: no flags of patterns, no encodings, and the types of `typing`, which keeps equal ones as one, in annotations alone;
- see the seed of hashes: no sets, and the views of a dictionary, whose `&` makes one, are only walked through;
- see an address: what is printed with one (functions, iterators, generators) never becomes a value, only a key function, a callee or a thing walked through;
- call what it did not name: a callee is a listed name, a listed method or a function of the program, and none of these names is ever bound again;
- see how full memory or the stack is: it can catch listed exceptions only (the runner runs what ends in the others again, alone), imports at top level
  alone, and what recurses uses no library that is written in Python.
"""

import _ast

from plain_calls import NotPlain, require
from plain_expressions import Expressions
from plain_names import EXCEPTIONS, LAYERED, MODULES, RESERVED

LONGEST = 50_000


def is_plain(tree):
    """True if a module's tree is plain. Never raises."""
    return _holds(Check.module, tree, False)


def is_plain_call(expression):
    """True if the arguments of a call of `f` are plain by themselves. They know none of the program's names."""
    return _holds(Check.outer_call, expression.body, False)


def is_harmless_call(expression):
    """As `is_plain_call`, with sets: they change nothing either, but need an interpreter with the job's own seed of hashes."""
    return _holds(Check.outer_call, expression.body, True)


def call_of(expression):
    """The tree of `f(...)`. Raises SyntaxError if the text was more than the arguments of one call: `1) + f(2`."""
    body = expression.body
    if type(body) is not _ast.Call or type(body.func) is not _ast.Name:
        raise SyntaxError('the text is not a list of arguments')
    return expression


def _holds(rule, tree, with_sets):
    check = Check(with_sets)
    try:
        rule(check, tree)
        check.names()
    except (NotPlain, RecursionError, MemoryError):
        return False
    return True


class Check(Expressions):
    """One walk over a tree. A function may be called above its definition, so what names mean is decided at the end, by `names`."""

    def __init__(self, with_sets):
        self.with_sets = with_sets
        self.functions = set()
        self.variables = set()
        self.modules = {}
        # Names that imports bind, and how each may be used.
        self.members = {}
        self.read = set()
        self.called = set()
        self.is_layered = False
        self.depth = 0
        self.is_call = False

    def names(self):
        groups = (self.functions, self.variables, set(self.modules), set(self.members))
        bound = set().union(*groups)
        # Each name has one meaning, and a builtin its usual one.
        require(len(bound) == sum(map(len, groups)) and RESERVED.isdisjoint(bound))
        require(not any(name.startswith('__') for name in bound))
        unbound = self.read - self.variables
        # Reading a name that nothing binds raises a NameError. Arguments of a call are checked without the program, so such a name makes them not plain.
        require(not unbound or not self.is_call)
        require(unbound.isdisjoint(bound | RESERVED) and not any(name.startswith('__') for name in unbound))
        require(self.called <= self.functions)
        require(not (self.is_layered and self.called))

    # Statements.

    def module(self, tree):
        self.body(tree.body)

    def body(self, statements):
        for statement in statements:
            visit = STATEMENTS.get(type(statement))
            if visit is None:
                raise NotPlain
            visit(self, statement)

    def function_def(self, node):
        # Python 3.11 has no type parameters.
        require(not node.decorator_list and not getattr(node, 'type_params', None))
        self.functions.add(node.name)
        self.parameters(node.args)
        self.annotation(node.returns)
        self.depth += 1
        self.body(node.body)
        self.depth -= 1

    def return_value(self, node):
        self.optional(node.value)

    def expression(self, node):
        self.value(node.value)

    def assign(self, node):
        walked = True
        for target in node.targets:
            self.target(target)
            walked = walked and type(target) in (_ast.Tuple, _ast.List)
        self.walk(node.value) if walked else self.value(node.value)

    def augmented_assign(self, node):
        self.target(node.target)
        self.value(node.value)

    def annotated_assign(self, node):
        self.target(node.target)
        self.annotation(node.annotation)
        self.optional(node.value)

    def delete(self, node):
        for target in node.targets:
            self.target(target)

    def for_loop(self, node):
        self.target(node.target)
        self.walk(node.iter)
        self.body(node.body)
        self.body(node.orelse)

    def branch(self, node):
        self.value(node.test)
        self.body(node.body)
        self.body(node.orelse)

    def assertion(self, node):
        self.value(node.test)
        self.optional(node.msg)

    def raise_error(self, node):
        # `from` and a bare `raise` are rare enough to be left out.
        require(node.exc is not None and node.cause is None)
        error = node.exc
        if type(error) is _ast.Call:
            require(not error.keywords)
            self.values(error.args)
            error = error.func
        require(type(error) is _ast.Name and error.id in EXCEPTIONS)

    def try_except(self, node):
        # A `finally` that returns would swallow any exception.
        require(not node.finalbody)
        for handler in node.handlers:
            self.caught(handler.type)
            if handler.name is not None:
                self.variables.add(handler.name)
            self.body(handler.body)
        self.body(node.body)
        self.body(node.orelse)

    def caught(self, node):
        for name in node.elts if type(node) is _ast.Tuple else [node]:
            require(type(name) is _ast.Name and name.id in EXCEPTIONS)

    def import_modules(self, node):
        require(self.depth == 0)
        for alias in node.names:
            require(alias.name in MODULES)
            self.modules[alias.asname or alias.name] = alias.name
            self.is_layered = self.is_layered or alias.name in LAYERED

    def import_members(self, node):
        require(self.depth == 0 and node.level == 0 and node.module in MODULES)
        for alias in node.names:
            require(alias.name in MODULES[node.module] and alias.asname in (None, alias.name))
            self.members[alias.name] = MODULES[node.module][alias.name]
            self.is_layered = self.is_layered or node.module in LAYERED or alias.name in LAYERED


STATEMENTS = {
    _ast.AnnAssign: Check.annotated_assign,
    _ast.Assert: Check.assertion,
    _ast.Assign: Check.assign,
    _ast.AugAssign: Check.augmented_assign,
    _ast.Break: Check.nothing,
    _ast.Continue: Check.nothing,
    _ast.Delete: Check.delete,
    _ast.Expr: Check.expression,
    _ast.For: Check.for_loop,
    _ast.FunctionDef: Check.function_def,
    _ast.If: Check.branch,
    _ast.Import: Check.import_modules,
    _ast.ImportFrom: Check.import_members,
    _ast.Nonlocal: Check.nothing,
    _ast.Pass: Check.nothing,
    _ast.Raise: Check.raise_error,
    _ast.Return: Check.return_value,
    _ast.Try: Check.try_except,
    _ast.While: Check.branch,
}
