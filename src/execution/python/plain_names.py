"""The names that a plain program may use. Each list was read for functions that show or change state; a name on
none of them is not plain."""

import builtins

TYPES = frozenset(['bool', 'bytes', 'complex', 'dict', 'float', 'int', 'list', 'str', 'tuple'])
FUNCTIONS = frozenset(
    'abs all any ascii bin chr divmod format hex isinstance len max min next oct ord pow print range repr round slice sorted sum'.split()
)
# Their results are iterators, which are printed with their address.
LAZY = frozenset(['enumerate', 'filter', 'map', 'reversed', 'zip'])
# Results that depend on the seed of hashes when they are printed. For arguments alone, which are then given to an interpreter with its seed.
SETS = frozenset(['frozenset', 'set'])

LAZY_METHODS = frozenset(['elements', 'items', 'keys', 'values'])
METHODS = frozenset(
    (
        'append appendleft as_integer_ratio bit_count bit_length capitalize casefold center clear conjugate copy count end endswith expandtabs extend '
        'extendleft find get group groups hex index insert isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace '
        'istitle isupper is_integer join ljust lower lstrip most_common move_to_end partition pop popitem popleft remove removeprefix removesuffix '
        'replace reverse rfind rindex rjust rotate rpartition rsplit rstrip setdefault sort span split splitlines start startswith strip swapcase title '
        'translate update upper zfill'
    ).split()
)
CLASS_METHODS = frozenset([('bytes', 'fromhex'), ('dict', 'fromkeys'), ('str', 'maketrans')])

# `Exception` is not here: it would catch the errors of memory and recursion.
EXCEPTIONS = frozenset(
    'ArithmeticError AssertionError AttributeError IndexError KeyError LookupError NameError OverflowError TypeError ValueError ZeroDivisionError'.split()
)

PRINT_KEYWORDS = frozenset(['end', 'flush', 'sep'])
# Calls that walk through their arguments and keep none: through the first one only, or through the only one.
WALK_FIRST = frozenset(
    'Counter OrderedDict all any bytes deque dict frozenset fsum len list next prod set sorted sum tuple'.split()
)
WALK_ALONE = frozenset(['max', 'min'])
WALK_METHODS = frozenset(['extend', 'extendleft', 'join', 'update'])
KEYED = frozenset(['max', 'min', 'sorted'])
# The second argument of these names an encoding, which may be loaded for it.
ENCODED = frozenset(['bytes', 'str'])
# Most arguments without the flags, which are compared by `==` where patterns are kept: 0.0 is not a flag, but finds what another program left under 0.
FLAGGED = {'findall': 2, 'finditer': 2, 'fullmatch': 2, 'match': 2, 'search': 2, 'split': 3, 'sub': 4, 'subn': 4}
# Calls whose first argument is a function.
MAPPED = frozenset(['filter', 'map', 'reduce'])


def kinds(calls='', values='', lazy='', annotations=''):
    members = {name: 'call' for name in calls.split()}
    members.update((name, 'value') for name in values.split())
    members.update((name, 'lazy') for name in lazy.split())
    members.update((name, 'annotation') for name in annotations.split())
    return members


# Members that may be used: called, read, called for an iterator, or as an annotation.
MODULES = {
    'bisect': kinds('bisect bisect_left bisect_right insort insort_left insort_right'),
    'collections': kinds('Counter OrderedDict defaultdict deque'),
    'functools': kinds('reduce'),
    'heapq': kinds('heapify heappop heappush heappushpop heapreplace nlargest nsmallest'),
    'itertools': kinds(lazy='accumulate chain combinations combinations_with_replacement compress islice pairwise permutations product zip_longest'),
    'math': kinds(
        'acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist erf erfc exp exp2 expm1 fabs factorial floor fmod frexp fsum '
        'gamma gcd hypot isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nextafter perm pow prod radians remainder sin sinh '
        'sqrt sumprod tan tanh trunc ulp',
        'e inf nan pi tau',
    ),
    're': kinds('escape findall fullmatch match search split sub subn', lazy='finditer'),
    'string': kinds('', 'ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits printable punctuation whitespace'),
    'typing': kinds(annotations='Any Dict FrozenSet Iterable List Optional Sequence Set Tuple Union'),
}
# Written in Python, with caches: how deep they go depends on earlier programs, so nothing that recurses may use them.
LAYERED = frozenset(['re', 'typing', 'Counter'])
RESERVED = frozenset(dir(builtins))
