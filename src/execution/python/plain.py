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

from plain_names import (
    CLASS_METHODS,
    ENCODED,
    EXCEPTIONS,
    FLAGGED,
    FUNCTIONS,
    KEYED,
    LAYERED,
    LAZY,
    LAZY_METHODS,
    MAPPED,
    METHODS,
    MODULES,
    PRINT_KEYWORDS,
    RESERVED,
    SETS,
    TYPES,
    WALK_ALONE,
    WALK_FIRST,
    WALK_METHODS,
)

LONGEST = 50_000
VALUE_TYPES = TYPES | {'Ellipsis'}
FUNCTION_ARGUMENTS = (TYPES | FUNCTIONS) - {'next', 'print'}
BUILTIN_CALLS = TYPES | FUNCTIONS


class NotPlain(Exception):
    pass


def require(condition):
    if not condition:
        raise NotPlain


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


class Check:
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

    def parameters(self, args):
        for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]:
            if arg is not None:
                self.variables.add(arg.arg)
                self.annotation(arg.annotation)
        for default in [*args.defaults, *args.kw_defaults]:
            require(default is None or is_constant(default))

    def return_value(self, node):
        self.optional(node.value)

    def expression(self, node):
        self.value(node.value)

    def nothing(self, node):
        pass

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

    def target(self, node):
        node_type = type(node)
        if node_type is _ast.Name:
            self.variables.add(node.id)
        elif node_type in (_ast.Tuple, _ast.List):
            for element in node.elts:
                self.target(element)
        elif node_type is _ast.Starred:
            self.target(node.value)
        else:
            require(node_type is _ast.Subscript)
            self.value(node)

    def annotation(self, node):
        """An expression whose value nobody can see. No type of `typing` may stand where an error or a dictionary would show it."""
        node_type = type(node)
        if node is None or self.is_typing(node):
            return
        if node_type is _ast.BinOp and type(node.op) is _ast.BitOr:
            self.annotation(node.left)
            self.annotation(node.right)
        elif node_type is _ast.Subscript and (self.is_typing(node.value) or (type(node.value) is _ast.Name and node.value.id in TYPES)):
            for argument in node.slice.elts if type(node.slice) is _ast.Tuple else [node.slice]:
                self.annotation(argument)
        else:
            self.value(node)

    def is_typing(self, node):
        if type(node) is _ast.Attribute:
            return self.member_kind(node) == 'annotation'
        return type(node) is _ast.Name and self.members.get(node.id) == 'annotation'

    # Expressions.

    def value(self, node):
        """An expression whose value may be kept, printed or compared."""
        visit = EXPRESSIONS.get(type(node))
        if visit is None:
            raise NotPlain
        visit(self, node)

    def values(self, nodes):
        for node in nodes:
            if node is not None:
                self.value(node)

    def optional(self, node):
        if node is not None:
            self.value(node)

    def walk(self, node):
        """An expression that is walked through and dropped: it may be an iterator too."""
        node_type = type(node)
        if node_type is _ast.GeneratorExp:
            self.comprehension(node)
        elif node_type is _ast.Call:
            self.any_call(node)
        else:
            self.value(node)

    def function(self, node):
        """An expression that a builtin calls: the key of a sort, the function of a map."""
        if type(node) is _ast.Lambda:
            self.parameters(node.args)
            self.value(node.body)
            return
        require(type(node) is _ast.Name)
        if node.id in self.members:
            require(self.members[node.id] == 'call' and node.id not in FLAGGED)
        elif node.id not in FUNCTION_ARGUMENTS:
            self.called.add(node.id)

    def name(self, node):
        if node.id in self.members:
            require(self.members[node.id] == 'value')
        elif node.id not in VALUE_TYPES:
            self.read.add(node.id)

    def sequence(self, node):
        self.values(node.elts)

    def set_display(self, node):
        require(self.with_sets)
        self.values(node.elts)

    def starred(self, node):
        self.walk(node.value)

    def dictionary(self, node):
        self.values(node.keys)
        self.values(node.values)

    def parts(self, node):
        self.values(node.values)

    def formatted(self, node):
        self.value(node.value)
        self.optional(node.format_spec)

    def binary(self, node):
        self.value(node.left)
        self.value(node.right)

    def unary(self, node):
        self.value(node.operand)

    def conditional(self, node):
        self.value(node.test)
        self.value(node.body)
        self.value(node.orelse)

    def named(self, node):
        # In the arguments of a call it would bind a name of the program.
        require(not self.is_call)
        self.target(node.target)
        self.value(node.value)

    def subscript(self, node):
        self.value(node.value)
        self.value(node.slice)

    def slice(self, node):
        self.values([node.lower, node.upper, node.step])

    def compare(self, node):
        self.value(node.left)
        for operator, right in zip(node.ops, node.comparators):
            # Whether two equal values are one object depends on the other objects that are alive.
            if type(operator) in (_ast.Is, _ast.IsNot):
                require(type(right) is _ast.Constant and (right.value is None or isinstance(right.value, bool)))
            self.walk(right) if type(operator) in (_ast.In, _ast.NotIn) else self.value(right)

    def comprehension(self, node):
        for generator in node.generators:
            require(not generator.is_async)
            self.target(generator.target)
            self.walk(generator.iter)
            self.values(generator.ifs)
        if type(node) is _ast.DictComp:
            self.value(node.key)
            self.value(node.value)
        else:
            self.value(node.elt)

    def attribute(self, node):
        require(self.member_kind(node) == 'value')

    def member_kind(self, node):
        """The allowed use of a module's member: `call`, `value`, `lazy`; None if there is no such member."""
        owner = node.value
        if type(owner) is not _ast.Name or owner.id not in self.modules:
            return None
        self.is_layered = self.is_layered or node.attr in LAYERED
        return MODULES[self.modules[owner.id]].get(node.attr)

    def call(self, node):
        require(not self.any_call(node))

    # Calls.

    def outer_call(self, node):
        self.is_call = True
        self.arguments(node, key=False, walked=False)

    def any_call(self, node):
        """True if the call's value is an iterator or a view, which may only be walked through."""
        callee = node.func
        if type(callee) is _ast.Name:
            return self.named_call(node, callee.id)
        require(type(callee) is _ast.Attribute)
        if type(callee.value) is _ast.Name and callee.value.id in self.modules:
            return self.listed_call(node, callee.attr, self.member_kind(callee))
        return self.method_call(node, callee.value, callee.attr)

    def named_call(self, node, name):
        if name in self.members:
            return self.listed_call(node, name, self.members[name])
        if name in LAZY:
            return self.listed_call(node, name, 'lazy')
        if name in BUILTIN_CALLS or (self.with_sets and name in SETS):
            return self.listed_call(node, name, 'call')
        self.called.add(name)
        self.arguments(node, key=False, walked=False)
        return False

    def method_call(self, node, owner, name):
        if type(owner) is _ast.Name and owner.id in TYPES:
            require((owner.id, name) in CLASS_METHODS)
            self.arguments(node, key=False, walked=False)
            return False
        require(name in METHODS or name in LAZY_METHODS)
        self.value(owner)
        self.arguments(node, key=name == 'sort', walked=name in WALK_METHODS)
        return name in LAZY_METHODS

    def listed_call(self, node, name, kind):
        require(kind in ('call', 'lazy'))
        keywords = node.keywords
        require(all(keyword.arg is not None for keyword in keywords))
        require(name != 'print' or all(keyword.arg in PRINT_KEYWORDS for keyword in keywords))
        are_single = not any(type(argument) is _ast.Starred for argument in node.args)
        require(name not in ENCODED or (are_single and not keywords and len(node.args) < 2))
        require(name not in FLAGGED or (are_single and len(node.args) <= FLAGGED[name] and all(keyword.arg != 'flags' for keyword in keywords)))
        # Its function could be a type, which it calls with two arguments.
        require(name != 'accumulate' or (are_single and len(node.args) < 2 and all(keyword.arg == 'initial' for keyword in keywords)))
        if name in MAPPED:
            self.mapped_call(node, name)
        elif kind == 'lazy':
            self.values(keyword.value for keyword in keywords)
            for argument in node.args:
                self.walk(argument)
        else:
            require(name != 'next' or (bool(node.args) and type(node.args[0]) is _ast.GeneratorExp))
            self.arguments(node, key=name in KEYED, walked=name in WALK_FIRST or (name in WALK_ALONE and len(node.args) == 1))
        return kind == 'lazy'

    def mapped_call(self, node, name):
        require(len(node.args) >= 2 and not node.keywords)
        function, first, *others = node.args
        if type(function) is _ast.Name and function.id in ENCODED:
            require(name != 'reduce' and not others and type(first) is not _ast.Starred)
        if not is_none(function):
            self.function(function)
        self.walk(first)
        for argument in others:
            # The start of a `reduce` may be its value.
            self.value(argument) if name == 'reduce' else self.walk(argument)

    def arguments(self, node, key, walked):
        for keyword in node.keywords:
            if key and keyword.arg == 'key' and not is_none(keyword.value):
                self.function(keyword.value)
            else:
                self.value(keyword.value)
        for argument in node.args:
            self.walk(argument) if walked else self.value(argument)
            walked = False


def is_none(node):
    return type(node) is _ast.Constant and node.value is None


def is_constant(node):
    return type(node) is _ast.Constant or (type(node) is _ast.UnaryOp and type(node.operand) is _ast.Constant)


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
EXPRESSIONS = {
    _ast.Attribute: Check.attribute,
    _ast.BinOp: Check.binary,
    _ast.BoolOp: Check.parts,
    _ast.Call: Check.call,
    _ast.Compare: Check.compare,
    _ast.Constant: Check.nothing,
    _ast.Dict: Check.dictionary,
    _ast.DictComp: Check.comprehension,
    _ast.FormattedValue: Check.formatted,
    _ast.IfExp: Check.conditional,
    _ast.JoinedStr: Check.parts,
    _ast.List: Check.sequence,
    _ast.ListComp: Check.comprehension,
    _ast.Name: Check.name,
    _ast.NamedExpr: Check.named,
    _ast.Set: Check.set_display,
    _ast.Slice: Check.slice,
    _ast.Starred: Check.starred,
    _ast.Subscript: Check.subscript,
    _ast.Tuple: Check.sequence,
    _ast.UnaryOp: Check.unary,
}
