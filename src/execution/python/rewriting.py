"""
Text in, text out: what upstream does to a program before it is kept (LeapLabTHU/Absolute-Zero-Reasoner a82124e, utils/code_utils/parsers.py, MIT).
All but the imports raise SyntaxError for text that does not parse.
"""

import ast
import re

DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
DOCUMENTED = (ast.AsyncFunctionDef, ast.FunctionDef, ast.ClassDef, ast.Module)


SPACE = re.compile(r'\s*')
IMPORT = re.compile(r'(?:from|import)\s+.*')


def imports_of(tree):
    """The import statements, inner ones too, in breadth-first order."""
    return [import_line(node) for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


def import_line(node):
    names = ', '.join(alias.name + (f' as {alias.asname}' if alias.asname else '') for alias in node.names)
    if isinstance(node, ast.Import):
        return f'import {names}'
    return f"from {'.' * node.level}{node.module or ''} import {names}"


def import_lines(code):
    """The lines that look like imports, where the text does not parse: `^\\s*(?:from|import)\\s+.*$`, in linear time."""
    lines, end = [], -1
    while True:
        start = SPACE.match(code, end + 1).end()
        found = IMPORT.match(code, start)
        if found:
            lines.append(found.group().strip())
        end = code.find('\n', found.end() if found else start)
        if end == -1:
            return lines


def without_comments(code):
    """Without comments, docstrings and blank lines. Any text that begins a body counts as a docstring; a body can end up empty."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        while isinstance(node, DOCUMENTED) and node.body and is_text(node.body[0]):
            node.body.pop(0)
    return '\n'.join(line.rstrip() for line in ast.unparse(tree).split('\n') if line.strip())


def is_text(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def definitions_only(code):
    """Imports, functions and classes of the top level, without comments and blank lines."""
    tree = ast.parse(code)
    tree.body = [node for node in tree.body if isinstance(node, DEFINITIONS)]
    return '\n'.join(line for line in ast.unparse(tree).split('\n') if line.strip())


def without_prints(code):
    """Without calls of `print`; None takes their place within expressions."""
    tree = PrintRemover().visit(ast.parse(code))
    return ast.unparse(ast.fix_missing_locations(tree))


class PrintRemover(ast.NodeTransformer):
    """Keeps statements that are other expressions as they are, with the prints within them, as upstream."""

    def visit_Expr(self, node):
        return None if is_print(node.value) else node

    def visit_Call(self, node):
        return ast.Constant(value=None) if is_print(node) else node

    def visit_block(self, node):
        self.generic_visit(node)
        if not node.body:
            node.body.append(ast.Pass())
        return node

    visit_For = visit_While = visit_FunctionDef = visit_AsyncFunctionDef = visit_If = visit_With = visit_block

    def visit_Try(self, node):
        self.visit_block(node)
        for handler in node.handlers:
            if not handler.body:
                handler.body.append(ast.Pass())
        return node


def is_print(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == 'print'


def renamed(code, old, new):
    """With another name for a function: where it is defined, and where it is called by that name."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == old:
            node.name = new
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == old:
            node.func.id = new
    return ast.unparse(tree)


REWRITES = {'comments': without_comments, 'definitions': definitions_only, 'prints': without_prints}


def rewritten(code, steps):
    """Applies steps in order: names of REWRITES, and pairs of an old and a new name."""
    for step in steps:
        code = REWRITES[step](code) if isinstance(step, str) else renamed(code, *step)
    return code
