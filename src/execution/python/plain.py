"""
Which programs may share an interpreter: those that can neither change nor observe anything in it but their own values. The rule is a list of what is
allowed, over the syntax tree alone; whatever it does not know is not plain, which costs a new interpreter and nothing else.

What a plain program cannot do, and by what:
- reach another object than its own values: no dunder, no attribute but the listed methods, called at once; no builtin but the listed;
- see the seed of hashes: no sets, and the views of a dictionary, whose `&` makes one, are only walked through;
- see an address: what is printed with one (functions, iterators, generators) never becomes a value, only a key function, a callee or a thing walked through;
- call what it did not name: a callee is a listed builtin, a listed method or a function of the program, and none of these names is ever bound again;
- see how full memory or the stack is: it can catch listed exceptions only (the runner runs what ends in the others again, alone).
"""

import builtins

TYPES = frozenset(['bool', 'bytes', 'complex', 'dict', 'float', 'int', 'list', 'str', 'tuple'])
FUNCTIONS = frozenset(
    'abs all any ascii bin chr divmod format hex isinstance len max min next oct ord pow print range repr round slice sorted sum'.split()
)
LAZY = frozenset(['enumerate', 'filter', 'map', 'reversed', 'zip'])
LAZY_METHODS = frozenset(['items', 'keys', 'values'])
METHODS = frozenset(
    (
        'append as_integer_ratio bit_count bit_length capitalize casefold center clear conjugate copy count endswith expandtabs extend find get hex index '
        'insert isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper is_integer join ljust lower '
        'lstrip partition pop popitem remove removeprefix removesuffix replace reverse rfind rindex rjust rpartition rsplit rstrip setdefault sort split '
        'splitlines startswith strip swapcase title translate update upper zfill'
    ).split()
)
CLASS_METHODS = frozenset([('bytes', 'fromhex'), ('dict', 'fromkeys'), ('str', 'maketrans')])
EXCEPTIONS = frozenset(
    'ArithmeticError AssertionError AttributeError IndexError KeyError LookupError NameError OverflowError TypeError ValueError ZeroDivisionError'.split()
)
MODULES = {
    'math': frozenset(
        (
            'acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc exp exp2 expm1 fabs factorial floor fmod frexp '
            'fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nan nextafter perm pi pow prod radians '
            'remainder sin sinh sqrt sumprod tan tanh tau trunc ulp'
        ).split()
    ),
}
MATH_VALUES = frozenset(['e', 'inf', 'nan', 'pi', 'tau'])
PRINT_KEYWORDS = frozenset(['end', 'flush', 'sep'])
# Calls whose arguments are walked through and not kept: all of them, or only the first.
WALK_ALL = LAZY
WALK_FIRST = frozenset(['all', 'any', 'bytes', 'dict', 'len', 'list', 'next', 'sorted', 'sum', 'tuple'])
WALK_METHODS = frozenset(['extend', 'join', 'update'])
WALK_IF_ALONE = frozenset(['max', 'min'])
KEYED = frozenset(['max', 'min', 'sorted'])
MOST_NODES = 20_000


class NotPlain(Exception):
    pass


def is_plain(tree):
    """True if a module's tree is plain. Never raises."""
    return _holds(lambda: Check(tree).module(tree))


def is_plain_call(expression):
    """True if the arguments of a call of `f` are plain by themselves: they know none of the program's names but `f`, the callee."""

    def check():
        rule = Check(expression)
        rule.arguments(expression.body, walked=False)

    return _holds(check)


def call_of(expression):
    """The tree of `f(...)`. Raises SyntaxError if the text was more than the arguments of one call: `1) + f(2`."""
    body = expression.body
    if type(body).__name__ != 'Call' or type(body.func).__name__ != 'Name':
        raise SyntaxError('the text is not a list of arguments')
    return expression


def _holds(check):
    try:
        check()
    except (NotPlain, RecursionError, MemoryError):
        return False
    return True


def _children(node):
    for field in node._fields:
        value = getattr(node, field, None)
        for child in value if isinstance(value, list) else [value]:
            if hasattr(child, '_fields'):
                yield child


def _nodes(tree):
    waiting, count = [tree], 0
    while waiting:
        node = waiting.pop()
        count += 1
        require(count <= MOST_NODES)
        waiting.extend(_children(node))
        yield node


def require(condition):
    if not condition:
        raise NotPlain


def kind(node):
    return type(node).__name__


class Check:
    """One walk over a tree. Names are collected first, because a function may call one that is defined after it."""

    def __init__(self, tree):
        self.functions = set()
        self.variables = set()
        self.modules = {}
        self.module_values = {}
        self.module_functions = {}
        for node in _nodes(tree):
            self.collect(node)
        bound = [*self.functions, *self.variables, *self.modules, *self.module_values, *self.module_functions]
        require(len(bound) == len(set(bound)))
        for name in bound:
            require(not name.startswith('__') and not hasattr(builtins, name))

    def collect(self, node):
        match kind(node):
            case 'FunctionDef':
                self.functions.add(node.name)
            case 'Name' if kind(node.ctx) != 'Load':
                self.variables.add(node.id)
            case 'arg':
                self.variables.add(node.arg)
            case 'ExceptHandler' if node.name is not None:
                self.variables.add(node.name)
            case 'Import':
                for alias in node.names:
                    require(alias.name in MODULES)
                    self.modules[alias.asname or alias.name] = alias.name
            case 'ImportFrom':
                require(node.level == 0 and node.module in MODULES)
                for alias in node.names:
                    require(alias.name in MODULES[node.module])
                    names = self.module_values if alias.name in MATH_VALUES else self.module_functions
                    names[alias.asname or alias.name] = alias.name

    # Statements.

    def module(self, tree):
        require(kind(tree) == 'Module')
        self.body(tree.body)

    def body(self, statements):
        for statement in statements:
            visit = getattr(self, f'do_{kind(statement)}', None)
            require(visit is not None)
            visit(statement)

    def do_FunctionDef(self, node):
        require(not node.decorator_list and not node.type_params)
        self.parameters(node.args)
        self.annotation(node.returns)
        self.body(node.body)

    def parameters(self, args):
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        for arg in every:
            if arg is not None:
                self.annotation(arg.annotation)
        for default in [*args.defaults, *args.kw_defaults]:
            require(default is None or is_constant(default))

    def annotation(self, node):
        if node is not None:
            self.value(node)

    def do_Return(self, node):
        if node.value is not None:
            self.value(node.value)

    def do_Expr(self, node):
        self.value(node.value)

    def do_Pass(self, node):
        pass

    do_Break = do_Continue = do_Nonlocal = do_Import = do_ImportFrom = do_Pass

    def do_Assign(self, node):
        for target in node.targets:
            self.target(target)
        walked = all(kind(target) in ('Tuple', 'List') for target in node.targets)
        self.walk(node.value) if walked else self.value(node.value)

    def do_AugAssign(self, node):
        self.target(node.target)
        self.value(node.value)

    def do_AnnAssign(self, node):
        self.target(node.target)
        self.annotation(node.annotation)
        if node.value is not None:
            self.value(node.value)

    def do_Delete(self, node):
        for target in node.targets:
            self.target(target)

    def do_For(self, node):
        self.target(node.target)
        self.walk(node.iter)
        self.body(node.body)
        self.body(node.orelse)

    def do_While(self, node):
        self.value(node.test)
        self.body(node.body)
        self.body(node.orelse)

    do_If = do_While

    def do_Assert(self, node):
        self.value(node.test)
        if node.msg is not None:
            self.value(node.msg)

    def do_Raise(self, node):
        # `from` and a bare `raise` are seldom enough to be left out.
        require(node.exc is not None and node.cause is None)
        error = node.exc
        if kind(error) == 'Call':
            require(not error.keywords)
            self.values(error.args)
            error = error.func
        require(kind(error) == 'Name' and error.id in EXCEPTIONS)

    def do_Try(self, node):
        # A `finally` that returns would swallow any exception.
        require(not node.finalbody)
        for handler in node.handlers:
            self.caught(handler.type)
            self.body(handler.body)
        self.body(node.body)
        self.body(node.orelse)

    def caught(self, node):
        require(node is not None)
        for name in node.elts if kind(node) == 'Tuple' else [node]:
            require(kind(name) == 'Name' and name.id in EXCEPTIONS)

    def target(self, node):
        match kind(node):
            case 'Name':
                pass
            case 'Tuple' | 'List':
                for element in node.elts:
                    self.target(element)
            case 'Starred':
                self.target(node.value)
            case 'Subscript':
                self.value(node)
            case _:
                raise NotPlain

    # Expressions.

    def values(self, nodes):
        for node in nodes:
            if node is not None:
                self.value(node)

    def value(self, node):
        """An expression whose value may be kept, printed or compared."""
        visit = getattr(self, f'of_{kind(node)}', None)
        require(visit is not None)
        visit(node)

    def walk(self, node):
        """An expression that is walked through and dropped: it may be an iterator too."""
        if kind(node) == 'GeneratorExp':
            self.comprehension(node, [node.elt])
        elif kind(node) == 'Call' and self.is_lazy(node):
            self.call(node)
        else:
            self.value(node)

    def is_lazy(self, node):
        callee = node.func
        return (kind(callee) == 'Name' and callee.id in LAZY) or (kind(callee) == 'Attribute' and callee.attr in LAZY_METHODS)

    def function(self, node):
        """An expression that is called by a builtin: the key of a sort, the function of a map."""
        if kind(node) == 'Lambda':
            self.parameters(node.args)
            self.value(node.body)
        else:
            require(kind(node) == 'Name')
            require(node.id in TYPES or node.id in FUNCTIONS - {'next', 'print'} or node.id in self.functions or node.id in self.module_functions)

    def of_Constant(self, node):
        pass

    def of_Name(self, node):
        require(node.id in self.variables or node.id in self.module_values or node.id in TYPES)

    def of_Tuple(self, node):
        self.values(node.elts)

    of_List = of_Tuple

    def of_Starred(self, node):
        self.walk(node.value)

    def of_Dict(self, node):
        self.values(node.keys)
        self.values(node.values)

    def of_BoolOp(self, node):
        self.values(node.values)

    of_JoinedStr = of_BoolOp

    def of_FormattedValue(self, node):
        self.values([node.value, node.format_spec])

    def of_BinOp(self, node):
        self.values([node.left, node.right])

    def of_UnaryOp(self, node):
        self.value(node.operand)

    def of_IfExp(self, node):
        self.values([node.test, node.body, node.orelse])

    def of_NamedExpr(self, node):
        self.value(node.value)

    def of_Subscript(self, node):
        self.values([node.value, node.slice])

    def of_Slice(self, node):
        self.values([node.lower, node.upper, node.step])

    def of_Compare(self, node):
        self.value(node.left)
        for operator, right in zip(node.ops, node.comparators):
            # Whether two equal values are one object depends on what else is alive.
            if kind(operator) in ('Is', 'IsNot'):
                require(kind(right) == 'Constant' and (right.value is None or isinstance(right.value, bool)))
            self.walk(right) if kind(operator) in ('In', 'NotIn') else self.value(right)

    def of_ListComp(self, node):
        self.comprehension(node, [node.elt])

    def of_DictComp(self, node):
        self.comprehension(node, [node.key, node.value])

    def comprehension(self, node, elements):
        for generator in node.generators:
            require(not generator.is_async)
            self.target(generator.target)
            self.walk(generator.iter)
            self.values(generator.ifs)
        self.values(elements)

    def of_Attribute(self, node):
        require(kind(node.value) == 'Name' and node.value.id in self.modules and node.attr in MATH_VALUES)

    def of_Call(self, node):
        require(not self.is_lazy(node))
        self.call(node)

    # Calls.

    def call(self, node):
        callee = node.func
        if kind(callee) == 'Attribute':
            self.method_call(node, callee)
        else:
            require(kind(callee) == 'Name')
            if callee.id in self.functions or callee.id in self.module_functions:
                self.arguments(node, walked=False)
            else:
                self.builtin_call(node, callee.id)

    def method_call(self, node, callee):
        owner, name = callee.value, callee.attr
        if kind(owner) == 'Name' and owner.id in self.modules:
            require(name in MODULES[self.modules[owner.id]] and name not in MATH_VALUES)
            self.arguments(node, walked=False)
            return
        if kind(owner) == 'Name' and (owner.id, name) in CLASS_METHODS:
            self.arguments(node, walked=False)
            return
        require(name in METHODS or name in LAZY_METHODS)
        require(not (kind(owner) == 'Name' and owner.id in TYPES))
        self.value(owner)
        self.keyed_arguments(node, key=name == 'sort', walked=name in WALK_METHODS)

    def builtin_call(self, node, name):
        require(name in TYPES or name in FUNCTIONS or name in LAZY)
        require(all(keyword.arg is not None for keyword in node.keywords))
        if name == 'print':
            require(all(keyword.arg in PRINT_KEYWORDS for keyword in node.keywords))
        if name in ('map', 'filter'):
            self.mapped(node)
            return
        if name in WALK_ALL:
            self.values(keyword.value for keyword in node.keywords)
            for argument in node.args:
                self.walk(argument)
            return
        if name == 'next':
            require(bool(node.args) and kind(node.args[0]) == 'GeneratorExp')
        alone = name in WALK_IF_ALONE and len(node.args) == 1
        self.keyed_arguments(node, key=name in KEYED, walked=name in WALK_FIRST or alone)

    def mapped(self, node):
        require(len(node.args) >= 2 and not node.keywords)
        function, *walked = node.args
        if not (kind(function) == 'Constant' and function.value is None):
            self.function(function)
        for argument in walked:
            self.walk(argument)

    def keyed_arguments(self, node, key, walked):
        for keyword in node.keywords:
            is_none = kind(keyword.value) == 'Constant' and keyword.value.value is None
            if key and keyword.arg == 'key' and not is_none:
                self.function(keyword.value)
            else:
                self.value(keyword.value)
        self.positional(node.args, walked)

    def arguments(self, node, walked):
        self.values(keyword.value for keyword in node.keywords)
        self.positional(node.args, walked)

    def positional(self, args, walked):
        for index, argument in enumerate(args):
            self.walk(argument) if walked and index == 0 else self.value(argument)


def is_constant(node):
    return kind(node) == 'Constant' or (kind(node) == 'UnaryOp' and kind(node.operand) == 'Constant')
