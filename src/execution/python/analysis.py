"""Reads a program by CPython's own syntax tree and never runs it."""

import ast
import re

from plain import is_plain
from rewriting import import_lines, imports_of, rewritten

NOTHING = {'functions': [], 'entry': None, 'code': '', 'plain': False}
BROKEN = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


def analyse(code, banned, rule='any_spelling', rewrites=None):
    """
    The facts about a program, as `CodeFacts` of the executor. Never raises for any text.

    rule: `any_spelling`, or `modules` for upstream's, which looks at the parts of dotted names alone, so that a banned `os.path` never matches.
    rewrites: steps of `rewriting.rewritten`. By default the entry is renamed to `f`, and comments and docstrings are removed.
    """
    try:
        tree = ast.parse(code)
        functions = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        entry = functions[0] if len(functions) == 1 else None
        steps = ['comments'] if entry is None else [[entry, 'f'], 'comments']
        facts = {'functions': functions, 'entry': entry, 'code': rewritten(code, steps if rewrites is None else rewrites), 'plain': is_plain(tree)}
    except BROKEN as error:
        facts = {'syntaxError': f'{type(error).__name__}: {error}'[:200], **NOTHING}
        return {**facts, 'imports': import_lines(code), 'banned': banned_words(code, banned)}
    names = banned_modules(tree, banned) if rule == 'modules' else banned_names(tree, banned)
    return {'syntaxError': None, **facts, 'imports': imports_of(tree), 'banned': names}


def banned_words(code, banned):
    """Upstream's rule for a text that is no program."""
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
    The banned names that a program imports or reads, in any spelling: parts of dotted names, attributes of imported modules under any name, stars, and imports
    by a call. A call whose argument is no text could import anything, and counts as all of them.
    """
    found = set(banned_modules(tree, banned))
    modules = imported_modules(tree, banned, found)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found.update(prefixes(dotted_name(node, modules)))
        elif isinstance(node, ast.Call) and is_import_call(node, modules):
            argument = node.args[0] if node.args else None
            is_text = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            found.update(prefixes(argument.value) if is_text else banned)
    return [name for name in banned if name in found]


def imported_modules(tree, banned, found):
    """The dotted name behind each name that an import binds. Adds what the imports themselves read to `found`."""
    modules = {}
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
                    found.update(other for other in banned if other.startswith(f'{node.module}.'))
                else:
                    modules[alias.asname or alias.name] = name
    return modules


def dotted_name(node, modules):
    """`os.path` for `o.path` after `import os as o`; empty if the attribute is not of an imported module."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in modules:
        return ''
    return '.'.join([modules[node.id], *reversed(names)])


def is_import_call(node, modules):
    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ''
    return name in ('__import__', 'import_module') or modules.get(name) == 'importlib.import_module'


def prefixes(dotted):
    """`a.b` and `a` for `a.b`, and each part alone."""
    parts = dotted.split('.')
    return {*parts, *('.'.join(parts[:end]) for end in range(1, len(parts) + 1))}
