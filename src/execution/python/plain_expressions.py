"""The expressions of plain programs (plain.py)."""

import _ast

from plain_calls import Calls, NotPlain, require
from plain_names import FLAGGED, FUNCTIONS, LAYERED, MODULES, TYPES

VALUE_TYPES = TYPES | {'Ellipsis'}
FUNCTION_ARGUMENTS = (TYPES | FUNCTIONS) - {'next', 'print'}


class Expressions(Calls):
    """The expressions of a walk, and the targets, parameters and annotations that some of them have."""

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

    def nothing(self, node):
        pass

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

    def parameters(self, args):
        for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]:
            if arg is not None:
                self.variables.add(arg.arg)
                self.annotation(arg.annotation)
        for default in [*args.defaults, *args.kw_defaults]:
            require(default is None or is_constant(default))

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


def is_constant(node):
    return type(node) is _ast.Constant or (type(node) is _ast.UnaryOp and type(node.operand) is _ast.Constant)


EXPRESSIONS = {
    _ast.Attribute: Expressions.attribute,
    _ast.BinOp: Expressions.binary,
    _ast.BoolOp: Expressions.parts,
    _ast.Call: Expressions.call,
    _ast.Compare: Expressions.compare,
    _ast.Constant: Expressions.nothing,
    _ast.Dict: Expressions.dictionary,
    _ast.DictComp: Expressions.comprehension,
    _ast.FormattedValue: Expressions.formatted,
    _ast.IfExp: Expressions.conditional,
    _ast.JoinedStr: Expressions.parts,
    _ast.List: Expressions.sequence,
    _ast.ListComp: Expressions.comprehension,
    _ast.Name: Expressions.name,
    _ast.NamedExpr: Expressions.named,
    _ast.Set: Expressions.set_display,
    _ast.Slice: Expressions.slice,
    _ast.Starred: Expressions.starred,
    _ast.Subscript: Expressions.subscript,
    _ast.Tuple: Expressions.sequence,
    _ast.UnaryOp: Expressions.unary,
}
