"""Reads a program by CPython's own syntax tree and never runs it."""

import ast

from plain import is_plain


def analyse(code, banned):
    """The facts about a program, as `CodeFacts` of the executor. Never raises for any text."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return {'syntaxError': f'{type(error).__name__}: {error}'[:200], 'functions': [], 'entry': None, 'imports': [], 'banned': [], 'code': '', 'plain': False}
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {
        'syntaxError': None,
        'functions': functions,
        'entry': functions[0] if len(functions) == 1 else None,
        'imports': [ast.unparse(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))],
        'banned': banned_names(tree, banned),
        'code': ast.unparse(renamed(tree, functions[0] if len(functions) == 1 else 'f')),
        'plain': is_plain(tree),
    }


def banned_names(tree, banned):
    """The banned names that are imported or read, dotted ones too, in the order of `banned`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(part for alias in node.names for part in prefixes(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.update(prefixes(node.module))
            found.update(f'{node.module}.{alias.name}' for alias in node.names)
        elif isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    return [name for name in banned if name in found]


def prefixes(dotted):
    parts = dotted.split('.')
    return ['.'.join(parts[:end]) for end in range(1, len(parts) + 1)]


def renamed(tree, entry):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            node.name = 'f'
        elif isinstance(node, ast.Name) and node.id == entry:
            node.id = 'f'
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            strip_docstring(node)
    return tree


def strip_docstring(node):
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        node.body[0:1] = [] if len(node.body) > 1 or isinstance(node, ast.Module) else [ast.Pass()]
