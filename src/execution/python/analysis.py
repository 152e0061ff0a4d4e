"""Reads a program by CPython's own syntax tree and never runs it."""

import ast
import re

from hidden_imports import ATTRIBUTES, bare_modules, hides_imports
from measures import measures
from plain import is_plain
from rewriting import import_lines, imports_of, rewritten

NOTHING = {'functions': [], 'entry': None, 'code': '', 'plain': False}
BROKEN = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


def analyse(code, banned, rule='any_spelling', rewrites=None, measured=False):
    """
    The facts about a program, as `CodeFacts` of the executor. Never raises for any text.

    rule: `any_spelling`, or `modules` for upstream's, which looks at the parts of dotted names alone, so that a banned `os.path` never matches.
    rewrites: steps of `rewriting.rewritten`. By default the entry is renamed to `f`, and comments and docstrings are removed.
    measured: `measures` are among the facts.
    """
    try:
        tree = ast.parse(code)
        functions = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        entry = functions[0] if len(functions) == 1 else None
        steps = ['comments'] if entry in (None, 'f') else [[entry, 'f'], 'comments']
        text = rewritten(code, steps if rewrites is None else rewrites)
        # A rename can bind a name that the program reads.
        plain = is_plain(tree) and (steps == ['comments'] or is_plain_text(text))
        facts = {'functions': functions, 'entry': entry, 'code': text, 'plain': plain}
        facts |= {'measures': measures(tree)} if measured else {}
    except BROKEN as error:
        facts = {'syntaxError': f'{type(error).__name__}: {error}'[:200], **NOTHING}
        return {**facts, 'imports': import_lines(code), 'banned': banned_words(code, banned)}
    imports = imports_of(tree)
    # Most proposals of a small model are such programs. The search for hidden imports would take as long as the rest of the analysis.
    is_free = plain and not imports and not any(word in code for word in [*ATTRIBUTES, *(part for name in banned for part in name.split('.'))])
    names = [] if is_free else banned_modules(tree, banned) if rule == 'modules' else banned_names(tree, banned)
    return {'syntaxError': None, **facts, 'imports': imports, 'banned': names}


def is_plain_text(code):
    try:
        return is_plain(ast.parse(code))
    except BROKEN:
        return False


def banned_words(code, banned):
    """Upstream's rule for text that does not parse."""
    return [name for name in banned if re.search(rf'\b{re.escape(name)}\b', code)]


def banned_modules(tree, banned):
    """Upstream's rule: a name is banned if it is a part of a dotted name in an import."""
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            parts.update(part for alias in node.names for part in alias.name.split('.'))
        elif isinstance(node, ast.ImportFrom):
            parts.update(part for name in [node.module or '', *(alias.name for alias in node.names)] for part in name.split('.'))
    return [name for name in banned if name in parts]


def banned_names(tree, banned):
    """
    The banned names that a program imports or reads, in any spelling: parts of dotted names, attributes of modules under any name, stars, imports by a call, and
    words in a string that holds a program. An import whose name is not a literal string could be any module, so it counts as all of them. Other ways of
    hiding a name count as all of them too.
    """
    found = set(banned_modules(tree, banned))
    modules = imported_modules(tree, banned, found)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Call)):
            found.update(prefixes(dotted_name(node, modules)))
        if isinstance(node, ast.Call) and is_import(node.func, modules) and literal_text(imported(node)) is None:
            found.update(banned)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ('exec', 'eval', 'compile') and node.args:
            found.update(banned_words(literal_text(node.args[0]) or '', banned))
    for module in bare_modules(tree, modules):
        found.update(name for name in banned if name.startswith(f'{module}.'))
    if hides_imports(tree, found):
        found.update(banned)
    return [name for name in banned if name in found]


def imported_modules(tree, banned, found):
    """The dotted name behind each name that an import or an assignment binds. Adds what the imports themselves read to `found`."""
    modules = {'__import__': '__import__'}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.update(prefixes(alias.name))
                modules[alias.asname or alias.name.split('.')[0]] = alias.name if alias.asname else alias.name.split('.')[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                name = f'{node.module}.{alias.name}'
                found.update(prefixes(name))
                if alias.name == '*':
                    found.add(name)
                    found.update(other for other in banned if other.startswith(f'{node.module}.'))
                else:
                    modules[alias.asname or alias.name] = name
        elif isinstance(node, (ast.Assign, ast.NamedExpr)):
            target = node.target if isinstance(node, ast.NamedExpr) else node.targets[0]
            if isinstance(target, ast.Name) and dotted_name(node.value, modules):
                modules[target.id] = dotted_name(node.value, modules)
    return modules


def dotted_name(node, modules):
    """`os.path` for `o.path` after `import os as o`, for `__import__('os').path` and for `getattr(os, 'path')`; empty if it is not of a module."""
    names = []
    while True:
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == 'getattr' and len(node.args) > 1:
            names.append(literal_text(node.args[1]) or '')
            node = node.args[0]
        else:
            break
    if isinstance(node, ast.Call) and is_import(node.func, modules):
        base = literal_text(imported(node))
    else:
        base = modules.get(node.id) if isinstance(node, ast.Name) else None
    return '.'.join([base, *reversed(names)]) if base else ''


def is_import(function, modules):
    """Tells whether a call of this imports: `__import__`, `importlib.import_module`, and both under other names."""
    name = function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ''
    return modules.get(name, name).split('.')[-1] in ('__import__', 'import_module')


def imported(call):
    """The module that a call imports; None if it imports none."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == 'name']
    return [*call.args, *named, None][0]


def literal_text(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def prefixes(dotted):
    """`a.b` and `a` for `a.b`, and each part alone."""
    parts = dotted.split('.')
    return {*parts, *('.'.join(parts[:end]) for end in range(1, len(parts) + 1))}
