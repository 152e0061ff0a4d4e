"""Measures of how complex a program is, from its syntax tree. Cyclomatic complexity and Halstead's numbers are counted as radon 6 counts them."""

import ast
import math

LOOPS = (ast.For, ast.AsyncFor, ast.While)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEEPER = (*LOOPS, ast.If, ast.IfExp, ast.ExceptHandler)
MOST_NODES = 1000


def measures(tree):
    """As `CodeMeasures` of the executor."""
    volume, effort = halstead(tree)
    functions = [1 + cyclomatic(node) for node in tree.body if isinstance(node, FUNCTIONS)]
    return {'cognitive': cognitive(tree, 0), 'cyclomatic': max(functions, default=1), 'volume': volume, 'effort': effort, 'nodes': nodes(tree)}


def cognitive(node, depth):
    """Each branch, loop, handler and conditional expression counts 1 and its depth among these; an `elif` and a run of equal boolean operators 1."""
    total = 0
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                is_elif = name == 'orelse' and isinstance(node, ast.If) and isinstance(child, ast.If) and len(value) == 1
                own = 1 if is_elif or isinstance(child, ast.BoolOp) else 1 + depth if isinstance(child, DEEPER) else 0
                total += own + cognitive(child, depth + (isinstance(child, DEEPER) and not is_elif))
    return total


def cyclomatic(function):
    """The decisions of a function, but not those of functions within it."""
    total, rest = 0, list(function.body)
    while rest:
        node = rest.pop()
        if isinstance(node, (*FUNCTIONS, ast.Assert)):
            total += isinstance(node, ast.Assert)
            continue
        rest.extend(ast.iter_child_nodes(node))
        if isinstance(node, (ast.If, ast.IfExp)):
            total += 1
        elif isinstance(node, LOOPS):
            total += 1 + bool(node.orelse)
        elif isinstance(node, ast.Try):
            total += len(node.handlers) + bool(node.orelse)
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
        elif isinstance(node, ast.match_case):
            total += not (isinstance(node.pattern, ast.MatchAs) and node.pattern.pattern is None)
    return total


def halstead(tree):
    """Volume and effort: operators of expressions, and their operands."""
    operators, operands = [], []

    def visit(node, context):
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.AugAssign, ast.BoolOp)):
            operators.append(type(node.op).__name__)
        elif isinstance(node, ast.Compare):
            operators.extend(type(each).__name__ for each in node.ops)
        found = {
            ast.BinOp: lambda: [node.left, node.right],
            ast.UnaryOp: lambda: [node.operand],
            ast.BoolOp: lambda: node.values,
            ast.AugAssign: lambda: [node.target, node.value],
            ast.Compare: lambda: [node.left, *node.comparators],
        }.get(type(node), list)()
        operands.extend((context, operand(each)) for each in found)
        is_function = isinstance(node, FUNCTIONS)
        for child in node.body if is_function else ast.iter_child_nodes(node):
            visit(child, node.name if is_function else context)

    visit(tree, None)
    distinct, used = len(set(operators)), len(set(operands))
    volume = (len(operators) + len(operands)) * math.log2(distinct + used) if operators else 0
    return volume, volume * distinct * len(operands) / (2 * used) if used else 0


def operand(node):
    """A name, an attribute or a constant is the same wherever it occurs; any other expression is unique."""
    return getattr(node, {ast.Name: 'id', ast.Attribute: 'attr', ast.Constant: 'value'}.get(type(node), ''), node)


def nodes(tree):
    """The tree in order, at most 1,000 of it: names of nodes, and the names and constants in them."""
    found, rest = [], [tree]
    while rest and len(found) < MOST_NODES:
        node = rest.pop()
        if isinstance(node, ast.AST):
            found.append(type(node).__name__)
            fields = [value for name, value in ast.iter_fields(node) if name not in ('ctx', 'kind', 'type_comment')]
            rest.extend(reversed([each for value in fields for each in (value if isinstance(value, list) else [value]) if each is not None]))
        else:
            found.append(repr(node)[:100])
    return found
