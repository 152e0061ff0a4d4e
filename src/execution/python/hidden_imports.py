"""Ways to a module that do not show in its name. A program that takes one could read anything, so it counts as
reading every banned name. This is a list of the known ways; the sandbox stops the others."""

import ast

# Names that hide an import, however they are read.
NAMES = frozenset('__builtins__ __loader__ __spec__ globals locals'.split())
# Functions that show what they read when they are called with a string.
CALLED = frozenset('__import__ compile eval exec'.split())
ATTRIBUTES = frozenset(
    '__builtins__ __globals__ __import__ __loader__ __spec__ __subclasses__ exec_module f_back f_builtins f_globals f_locals gi_frame load_module '
    'tb_frame'.split()
)
# Names and prefixes of dotted names.
DOTTED = frozenset(
    '_frozen_importlib _imp builtins code codeop ctypes imp importlib.* importlib.abc importlib.machinery importlib.util marshal pickle pkgutil runpy '
    'sys.* sys._getframe sys.modules zipimport'.split()
)


def hides_imports(tree, dotted):
    """
    Whether the program takes such a way.

    dotted: the dotted names that it imports and reads, and their prefixes.
    """
    if not DOTTED.isdisjoint(dotted):
        return True
    shown = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if is_named(node.func, CALLED):
                if not has_text(node):
                    return True
                shown.add(node.func)
            elif is_named(node.func, {'getattr'}) and not (len(node.args) > 1 and is_text(node.args[1])):
                return True
            elif isinstance(node.func, ast.Attribute) and node.func.attr == '__import__':
                shown.add(node.func)
        elif isinstance(node, (ast.Assign, ast.NamedExpr)) and is_named(node.value, {'__import__'}):
            shown.add(node.value)
    return any(is_hidden(node) for node in ast.walk(tree) if node not in shown)


def is_hidden(node):
    if isinstance(node, ast.Name):
        return node.id in NAMES or node.id in CALLED
    if isinstance(node, ast.Attribute):
        return node.attr in ATTRIBUTES
    return is_text(node) and node.value in ATTRIBUTES


def bare_modules(tree, modules):
    """The modules that are read in another way than by a member, such as `[os][0]`: code that has them can read any
    member."""
    shown = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            shown.add(node.value)
        elif isinstance(node, ast.Call) and is_named(node.func, {'getattr'}) and node.args:
            shown.add(node.args[0])
        elif isinstance(node, ast.NamedExpr) or (isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets[:1])):
            shown.add(node.value)
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in shown)
    return {modules[name] for name in names if name in modules}


def is_named(node, names):
    return isinstance(node, ast.Name) and node.id in names


def has_text(call):
    return is_text([*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == 'name'), None][0])


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
