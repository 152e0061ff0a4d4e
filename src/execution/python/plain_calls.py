"""The calls of plain programs (plain.py), and how a check ends at what is not plain."""

import _ast

from plain_names import (
    CLASS_METHODS,
    ENCODED,
    FLAGGED,
    FUNCTIONS,
    KEYED,
    LAZY,
    LAZY_METHODS,
    MAPPED,
    METHODS,
    PRINT_KEYWORDS,
    SETS,
    TYPES,
    WALK_ALONE,
    WALK_FIRST,
    WALK_METHODS,
)

BUILTIN_CALLS = TYPES | FUNCTIONS


class NotPlain(Exception):
    pass


def require(condition):
    if not condition:
        raise NotPlain


class Calls:
    """The calls of a walk, which has `value`, `walk` and `function` for their parts, and the names that imports bind."""

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
