"""Writes test/golden/chat-templates/constructs.json: what transformers makes of small templates, each with constructs of Python and Jinja that chat templates use.

python test/golden/producers/template_constructs.py (any Python with transformers 5)
"""

import importlib.metadata
import json
import pathlib

from transformers.utils.chat_template_utils import render_jinja_template

TARGET = pathlib.Path(__file__).resolve().parents[3] / "test/golden/chat-templates/constructs.json"

MESSAGES = [{"role": "user", "content": "Zürich 🙂 \"x\" it's"}, {"role": "assistant", "content": None, "n": 3, "f": 0.5, "on": True, "list": [1, "a", None], "map": {"b": 1, "A": 2}}]
VARIABLES = {
    "empty": [],
    "nothing": None,
    "schema": {"items": {"type": "string"}, "keys": 1, "values": [1], "get": "g", "type": ["string", "null"], "properties": {"items": {"type": "array"}, "b": {}}},
    "tools": None,
    "effort": "low",
    "pairs": [["x", 1], ["y", 2]],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4}]}]}, {"v": 5}],
    "words": ["b", "A", "c", "a"],
    "rows": [{"type": "f", "n": 2, "in": {"k": ["z"]}}, {"type": "g", "n": 1}, {"n": 5, "on": True}],
}

EXPRESSIONS = """
{0: 1, 512: 'x'}
{0: 0, 512: 128}[512]
{0: 0, 512: 128} | dictsort
{'b': 1, 'A': 2} | dictsort
{'b': 1, 'A': 2} | dictsort(true)
{'b': 1, 'a': 2} | dictsort(by='value', reverse=true)
{1: 'a'} | tojson
{'a': {1: none}} | string
1 in {1: 2}
'1' in {1: 2}
{1: 2}[1.0]
{true: 'yes'}[1]
[1] in [[1], [2]]
['a'] in ['a']
[] in [[]]
['string', 'null'] == schema.type
['string', 'null'] in [schema.type]
{'a': 1} in [{'a': 1.0}]
{'a': 1} == {'a': 1}
(1, 2) == [1, 2]
1 == true
'1' == 1
none == missing
none == false
missing == missing_too
'' == none
1 == 1.0
none in [none]
missing in [1]
'a' in missing
'a' not in missing
'a' in none
1 in 'a1'
none in 'a'
'a' in 'cat'
'type' in schema
[1] in schema
'a' + 'b'
'a' + 1
'a' + none
'a' + ['b']
1 + 'a'
[1] + [2]
[1] + (2,)
(1,) + (2, 3)
{} + {}
1 + true
1.5 + 1
'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1]
'ab' * 3
3 * 'ab'
[0] * 2
-7 // 2
-7 % 3
7 % -3
7.5 % 2
7 / 2
6 / 2
2 ** 3
2 ** -1
2 ** 0.5
1 / 0
1 // 0
1 < 2
'a' < 'b'
'Z' < 'a'
'🙂' > '\uffee'
'a' < 1
none < 1
[1, 2] < [1, 3]
true < 2
1 < 2 < 3
not none
not ''
not []
[] or 'x'
0 and 1
missing or 'x'
missing | upper
missing | lower
missing | trim
missing | title
missing | capitalize
missing | replace('a', 'b')
missing | length
missing | list
missing | first
missing | join(',')
missing | default('d')
missing | string
missing | int
missing | tojson
missing | items | list
missing | selectattr('a') | list
missing | map('upper') | list
missing | sort
missing | unique | list
missing.a
missing['a']
missing[0]
missing + 1
missing + 'a'
missing()
nothing | length
nothing | upper
nothing | trim
nothing | list
nothing | selectattr('type', 'equalto', 'x') | list | length
nothing | map('upper') | list
nothing | string
nothing | default('d')
nothing | default('d', true)
nothing | tojson
nothing | join
nothing.a
nothing['a']
nothing.a is defined
messages[5]
messages[5].role
messages[-1].role
messages[1:][0].n
messages[0].content[0]
messages[0].content[7]
messages[0].content | length
messages[0].content[::-1]
messages[0].content | reverse
messages[0].content | list | last
messages[0].content | upper
messages[0]['nokey']
messages[0].nokey is defined
messages[0].nokey.deep is defined
messages[1].list | join('-')
messages[1].list | tojson
messages[1].list | string
messages[1].map | tojson
messages[1].map.items() | list
messages[1].map | items | list
messages[1].map.keys() | list
messages[1].map.values() | list
messages[1].map.get('zz')
messages[1].map.get('zz', 7)
messages[1].map.get('b')
messages[1].map | length
messages[1].map | list
messages[1].f
messages[1].f | int
messages[1].on
messages[1].on | upper
messages[1].n | string | length
messages[1].n | upper
schema.items
schema['items']
schema.items() | length
schema.keys() | list
schema['keys']
schema.get('get')
schema['get']
schema.properties.items() | list
schema.properties['items'].type
schema.values() | list | length
schema.type is string
schema.type is sequence
schema.type is iterable
schema is iterable
schema is mapping
schema is sequence
'a' is iterable
1 is iterable
missing is iterable
none is iterable
true is number
1 is integer
1.0 is float
true is integer
1 is boolean
3 is odd
4 is even
'abc' is lower
'ABC' is upper
9 is divisibleby 3
9 is divisibleby(4)
'a' is in ['a']
'a' is not in ['a']
1 is eq 1
'a' is equalto('a')
none is sameas none
x is not defined
words | sort
words | sort(reverse=true)
words | sort(case_sensitive=true)
words | first
words | last
words | reverse | list
words | unique | list
words | map('upper') | list
words | map('upper') | join(' ')
words | map('replace', 'a', 'z') | list
words | select('equalto', 'a') | list
words | reject('in', ['a', 'b']) | list
words | select('lower') | list
words | map('upper') | tojson
words | map('upper') | length
words | map('upper') | first
words | map('upper') | last
words | join(', ')
words | length
words | count
words | min
words | max
words[1:3]
words[::-1]
words[:2] | join
words.index('c')
words.append('x')
rows | map(attribute='type') | list
rows | map(attribute='type', default='none') | list
rows | map(attribute='in.k.0') | list
rows | map(attribute='type') | tojson
rows | selectattr('type') | list | length
rows | selectattr('type', 'defined') | list | length
rows | selectattr('type', 'equalto', 'f') | map(attribute='n') | list
rows | selectattr('n', '>', 1) | list | length
rows | selectattr('n', 'gt', 1) | list | length
rows | selectattr('n', 'in', [1, 2]) | list | length
rows | rejectattr('type') | list
rows | rejectattr('type', 'undefined') | list | length
rows | sum(attribute='n')
rows | sort(attribute='n') | map(attribute='n') | list
rows | selectattr('on', 'true') | list | length
rows | tojson(indent=2)
rows | groupby('n') | list | length
[1, 2, 3] | sum
[3, 1] | sort
[1, 2, 3, 4] | batch(2) | list
[1, none, 2] | select | list
[1.5, 2] | sum
range(3) | list
range(1, 7, 2) | list
range(3, 0, -1) | list
range(0) | list
range(100001) | list | length
2.5 | round
3.5 | round
2.567 | round(2)
2.1 | round(0, 'ceil') | int
-3 | abs
'3.7' | int
'12abc' | int
'x' | int(5)
'1_000' | int
' 7 ' | int
'1e3' | float
'x' | float
none | int
true | int
'a,b,c'.split(',')
'a b  c'.split()
'a,b,c'.split(',', 1)
'a,b,c'.rsplit(',', 1)
'a\\nb'.splitlines()
'abc'.startswith('ab')
'abc'.startswith(('x', 'a'))
'abc'.endswith('bc')
'abc'.find('c')
'abc'.find('z')
'abc'.index('b')
'abca'.count('a')
'-'.join(['a', 'b'])
'abc'.upper()
'aBc'.title()
'abc'.capitalize()
'abc'.replace('b', 'x')
'aaa'.replace('a', 'b', 2)
'  a '.strip()
'xxaxx'.strip('x')
'xxa'.lstrip('x')
'axx'.rstrip('x')
'12'.isdigit()
'ab'.isalpha()
'x y'.isalnum()
'prefix-a'.removeprefix('prefix-')
'a.py'.removesuffix('.py')
'{} and {}'.format('a', 1)
'%s is %d' % ('a', 3)
'%s' % 'a'
'%s' | format('a')
'a' 'b'
"it's" ~ '"'
'a' if true else 'b'
'a' if false
('a' if false) is defined
[1, 2][0]
(1, 2)[1]
(1,)
()
[1, 'a', none, true, 1.0, {'k': (1, 2)}]
{'a': [1, {'b': none}]}
{'a': true} | tojson
{'b': 1, 'a': 2} | tojson(sort_keys=true)
{'é': '<&>'} | tojson
{'é': 1} | tojson(ensure_ascii=true)
[1, 2] | tojson(separators=(',', ':'))
'<b>' | e
'<b>' | escape
'<b>' | safe + '<i>'
'<b>' | safe ~ '<i>'
'a' | safe + {'k': '"'} | tojson
'x' | indent
'a\\nb' | indent(2)
'a\\nb' | indent(2, true)
'a b' | wordcount
'hello' | truncate(3)
'abc' | center(7)
'a b' | urlencode
'abc' | list
'abc' | first
'abc' | last
'abc' | join('-')
'abc'[1:]
'abc'[-1]
'abc'['x']
namespace(a=1).a
namespace(a=1).b
dict(a=1, b=2)
dict([('a', 1)]).a
5 | default(3)
effort | default('high')
effort in ('low', 'high')
effort not in ['low']
1000000
1e3
0.00001
12345678901234567890
1.5e-7
-0.0
none
true
[none, false]
loop is defined
messages | length
messages | last | tojson
strftime_now is defined
raise_exception('no')
range is callable
lipsum is defined
cycler('a', 'b').next()
joiner(', ')()
"""

BLOCKS = [
    "{% for k, v in {0: 0, 512: 128} | dictsort %}{{ k }}={{ v }};{{ 100 <= k }} {% endfor %}",
    "{% for k, v in {0: 1, 'a': 2}.items() %}{{ k }}{{ v }} {% endfor %}",
    "{% for a, b in [('x', 'y'), ('z', 'w')] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, b in pairs %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, b in pairs if b > 1 %}{{ a }}{{ loop.index }}{{ loop.last }}{% endfor %}",
    "{% for a, b in ['xy', 'zw'] %}{{ a }}-{{ b }} {% endfor %}",
    "{% for c in 'a🙂' %}[{{ c }}]{% endfor %}",
    "{% for k in {'b': 1, 'a': 2} %}{{ k }}{% endfor %}",
    "{% for x in missing %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in nothing %}{{ x }}{% endfor %}",
    "{% for x in 5 %}{{ x }}{% endfor %}",
    "{% for x in range(3) %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.length }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in words %}{{ loop.previtem | default('-') }}{{ loop.nextitem | default('+') }}{% endfor %}",
    "{% for x in words %}{{ loop.cycle('odd', 'even') }} {% endfor %}",
    "{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for m in messages %}{% if loop.changed(m.role) %}{{ m.role }}{% endif %}{% endfor %}",
    "{% for (a, b), c in [(('x', 'y'), 'z')] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in words | select('in', ['a', 'c']) %}{{ x }}{% endfor %}",
    "{% for x in [3, 1, 2] | sort %}{{ x }}{% endfor %}",
    "{% if rows | selectattr('type', 'equalto', 'zz') %}always{% endif %}",
    "{% if words | select('equalto', 'zz') | list %}never{% else %}empty{% endif %}",
    "{% set a, b = (1, 2) %}{{ a }}{{ b }}",
    "{% set a, b = [1, 2] %}{{ a }}{{ b }}",
    "{% set a = 'x' %}{% for i in [1] %}{% set a = 'y' %}{% endfor %}{{ a }}",
    "{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% set text %} a {{ 1 }} {% endset %}[{{ text }}]",
    "{% set t | upper %}abc{% endset %}{{ t }}",
    "{% filter upper %}abc{% endfilter %}",
    "{% filter trim %}  a {% endfilter %}",
    "{% macro f(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, b=none) }}{{ f(1, missing) }}",
    "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}in{% endcall %}",
    "{% macro f(a) %}{{ a.b is defined }}{% endmacro %}{{ f({'b': 1}) }}{{ f({}) }}{{ f(none) }}",
    "{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% raw %}{{ x }}{% endraw %}",
    "{# comment #}a{#- b -#} c",
    "{%- if true -%} a {%- endif -%} b",
    "{{- ' a ' -}} b",
    "  {% if true %}\n  a\n  {% endif %}\nb",
    "{% generation %}a{% endgeneration %}",
    "{% with a = 1 %}{{ a }}{% endwith %}",
    "{% do words.append('x') %}{{ words | length }}",
    "{{ '%.2f' | format(1.234) }}",
    "{% if missing %}a{% elif nothing %}b{% elif effort == 'low' %}c{% else %}d{% endif %}",
    "{% if schema.type is string or schema.type is mapping %}a{% else %}b{% endif %}",
    "{{ messages[0].content.split('\"')[1] }}",
    "{{ (messages | selectattr('role', 'equalto', 'user') | list)[-1].role }}",
    "{{ (messages | map(attribute='role') | list) | unique | join(',') }}",
    "{{ messages | map(attribute='content') | select('string') | list | length }}",
    "{% set x = namespace() %}{% set x.a = [] %}{% for m in messages %}{% set x.a = x.a + [m.role] %}{% endfor %}{{ x.a }}",
    "{% if messages[0]['role'] != 'system' %}{{ raise_exception('First: ' + messages[0].role) }}{% endif %}",
    "{{ schema.properties.items() | map('first') | list }}",
    "{% for name, field in schema.properties.items() %}{{ name }}:{{ field.type | default('any') | upper }};{% endfor %}",
    "{% for name, field in schema.properties | dictsort %}{{ name }}{{ field.type | upper }}{% endfor %}",
    "{{ schema.type | map('upper') | join(' | ') if schema.type is sequence and schema.type is not string else schema.type }}",
]

# Whole arguments of methods and filters, formatting, loops, literals and white space.
FURTHER = [
    "{{ words[:none] }}",
    "{{ 'a,b,c'.split(',', maxsplit=1) }}",
    "{{ ' a b  c '.rsplit(none, 1) }}",
    "{{ ' a b  c '.rsplit(maxsplit=1) }}",
    "{{ 'a,b,c'.split(sep=',') }}",
    "{{ 'a,b,c'.rsplit(',', maxsplit=1) }}",
    "{{ 'a,b,c'.rsplit(',', -1) }}",
    "{{ 'a,b,c'.partition(',') }}",
    "{{ 'a,b,c'.partition('x') }}",
    "{{ 'a,b,c'.rpartition(',') }}",
    "{{ 'a,b,c'.rpartition('x') }}",
    "{{ 'a,b'.partition(',')[2] }}",
    "{{ 'abc'.startswith('b', 1) }}",
    "{{ 'abc'.endswith('b', 0, 2) }}",
    "{{ 'aBC dE'.capitalize() }}",
    "{{ 'aBC dE'.swapcase() }}",
    "{{ 'ß'.casefold() }}",
    "{{ 'abcabc'.find('c', 3) }}",
    "{{ 'abcabc'.rfind('c', 0, 4) }}",
    "{{ 'abcabc'.index('b', 2) }}",
    "{{ 'abcabc'.rindex('b') }}",
    "{{ 'abcabc'.count('') }}",
    "{{ 'abcabc'.count('b', 2) }}",
    "{{ 'ab'.center(6) }}",
    "{{ 'ab'.center(7, '*') }}",
    "{{ 'ab'.ljust(5) ~ '|' }}",
    "{{ 'ab'.rjust(5, '-') }}",
    "{{ '7'.zfill(3) }}",
    "{{ '-7'.zfill(3) }}",
    "{{ 'a\\nb\\n'.splitlines(true) }}",
    "{{ 'a\\nb\\n'.splitlines(keepends=True) }}",
    "{{ 'a\\tb'.expandtabs(4) }}",
    "{{ '12'.isnumeric() }}",
    "{{ '12'.isdecimal() }}",
    "{{ '½'.isnumeric() }}",
    "{{ 'ab'.islower() }}",
    "{{ 'AB'.isupper() }}",
    "{{ 'Ab'.istitle() }}",
    "{{ 'ab'.isidentifier() }}",
    "{{ 'ab'.isascii() }}",
    "{{ 'é'.isascii() }}",
    "{{ 'a b'.isprintable() }}",
    "{{ '{:>5}|'.format('ab') }}",
    "{{ '{:.2f}'.format(1.239) }}",
    "{{ '{:05d}'.format(42) }}",
    "{{ '{:,}'.format(1234567) }}",
    "{{ '{!r}'.format('a') }}",
    "{{ '{a[x]}'.format(a={'x': 1}) }}",
    "{{ '{a.x}'.format(a={'x': 1}) }}",
    "{{ '{:x}'.format(255) }}",
    "{{ '{:%}'.format(0.5) }}",
    "{{ '%5d|' % 3 }}",
    "{{ '%-5d|' % 3 }}",
    "{{ '%05d' % 3 }}",
    "{{ '%+d' % 3 }}",
    "{{ '%5.1f|' % 2.345 }}",
    "{{ '%r' % 'a' }}",
    "{{ '%x' % 255 }}",
    "{{ '%X' % 255 }}",
    "{{ '%o' % 8 }}",
    "{{ '%e' % 12345.678 }}",
    "{{ '%g' % 12345.678 }}",
    "{{ '%g' % 0.00001 }}",
    "{{ '%c' % 'a' }}",
    "{{ '%i' % 5 }}",
    "{{ '%%'  % () }}",
    "{{ '%(a)s' % {'a': 1} }}",
    "{{ '%(a)d %(b)s' % {'a': 1, 'b': 'x'} }}",
    "{{ 'a' % () }}",
    "{{ '%10s|' % 'ab' }}",
    "{{ '%-10s|' % 'ab' }}",
    "{{ '%.1s' % 'ab' }}",
    "{{ '%(x)s'|format(x=1) }}",
    "{{ 1 < 3 < 2 }}",
    "{{ 1 < 2 > 1 }}",
    "{{ 1_000 }}",
    "{{ 0x1f }}",
    "{{ 0b11 }}",
    "{{ 0o17 }}",
    "{{ 1E3 }}",
    "{{ 1e16 }}",
    "{{ 1.0e15 }}",
    "{{ 1e100 }}",
    "{{ 1e-5 }}",
    "{{ '0x1f' | int(0, 16) }}",
    "{{ 'ff' | int(base=16) }}",
    "{{ '11' | int(0, 2) }}",
    "{{ 'inf' | float }}",
    "{{ 'nan' | float }}",
    "{{ 2.675 | round(2) }}",
    "{{ 5 | round }}",
    "{{ rows | sort(attribute='type,n') }}",
    "{{ [[2,1],[1,2]] | sort }}",
    "{{ ['a', 'A', 'b'] | unique(true) | list }}",
    "{{ ['a', 'A', 'b'] | unique(case_sensitive=true) | list }}",
    "{{ rows | max(attribute='n') }}",
    "{{ rows | min(attribute='n') }}",
    "{{ rows | map(attribute='in.k.0', default='-') | list }}",
    "{{ rows | groupby('type', default='z') | map('first') | list }}",
    "{{ [1,2,3,4,5] | batch(2) | list }}",
    "{{ [1,2,3,4,5] | batch(2, 'x') | list }}",
    "{{ {'a': 1, 'b': [1, 2]} | tojson(2) }}",
    "{{ {'a': 1, 'b': [1, 2]} | tojson(indent='\\t') }}",
    "{{ {'a': 'é🙂'} | tojson(true) }}",
    "{{ 1e16 | tojson }}",
    "{{ 1e-7 | tojson }}",
    "{{ 'a\\nb' | indent('> ') }}",
    "{{ 'hello world' | wordcount }}",
    "{{ 'hello World' | capitalize }}",
    "{{ 'hello' | center(11) }}",
    "{{ 'hello' | replace(old='l', new='L') }}",
    "{{ words.copy() }}",
    "{{ (1, 2) + (3,) }}",
    "{{ '\\U0001F642' }}",
    "{{ '\\101' }}",
    "{{ '\\q' }}",
    "{{ dict(a=1).a }}",
    "{{ dict({'a': 1}, b=2) }}",
    "{{ dict([('a', 1)]) }}",
    "{{ dict() }}",
    "{{ [[1,'b'],[0,'a']]|sort|first|last }}",
    "{{ messages|map('attr', 'role')|list }}",
    "{{ messages[0]|attr('role') }}",
    "{{ [1e20, 1e-5, 0.1, 100.0]|string }}",
    "{{ 'x'.format_map({'a': 1}) }}",
    "{{ 'x'.strip(3) }}",
    "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}",
    "{% for w in words %}{{ loop.cycle('odd', 'even') }} {% endfor %}",
    "{% for m in messages %}{{ loop.changed(m.role) }}{% endfor %}",
    "{% for w in words %}{% if loop.changed(w) %}{{ w }}{% endif %}{% endfor %}",
    "{% for a, (b, c) in [('x', ('y', 'z'))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in tree recursive %}{{ x.v }}{% if x.c %}({{ loop(x.c) }}){% endif %}{{ loop.depth }}{% endfor %}",
    "{% for x in [[1, [2, [3]]]] recursive %}{% if x is iterable %}[{{ loop(x) }}]{% else %}{{ x }}{% endif %}{% endfor %}",
    "{% set x = 1 %}{% for i in range(2) %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% set x | replace('a', 'b') | upper %}aaa{% endset %}{{ x }}",
    "{% filter upper | replace('A', 'z') %}abc{% endfilter %}",
    "a\n  {%+ if 1 %}\nb\n  {%+ endif %}\nc",
    "a\n  {% if 1 +%}\nb\n  {% endif +%}\nc",
    "{% raw %}{% if %}{% endraw %}",
    "{%- raw -%} {{ x }} {%- endraw -%} y",
    "a {% raw %}\n {{ x }}\n{% endraw %}\nb",
    "{% for t, g in rows | groupby('n') %}{{ t }}:{{ g|length }} {% endfor %}",
    "{% for b in words | batch(2) %}{{ b|join }};{% endfor %}",
    "{{ '%02d' % 5 }}",
    "{% set m = words | map('upper') %}{{ m | list }}{{ m | list }}",
    "{% set m = words | select('ne', 'a') %}{{ m | join }}{{ m | join }}",
    "{% set m = words | reverse %}{{ m | list }}{{ m | list }}",
    "{% set m = {'a': 1}|items %}{{ m|list }}{{ m|list }}",
    "{{ 'a🙂b'|center(7) }}|",
    "{{ '\\\\' }}{{ '\\\n' }}{{ '\\/' }}",
]


def outcome(template: str) -> dict:
    try:
        texts, _ = render_jinja_template([json.loads(json.dumps(MESSAGES))], chat_template=template, **json.loads(json.dumps(VARIABLES)))
        return {"text": texts[0]}
    except Exception as error:
        return {"refused": type(error).__name__}


def main() -> None:
    templates = ["{{ " + line.strip() + " }}" for line in EXPRESSIONS.strip().split("\n")] + BLOCKS + FURTHER
    versions = {name: importlib.metadata.version(name) for name in ("transformers", "jinja2")}
    head = {"producer": "test/golden/producers/template_constructs.py", **versions, "messages": MESSAGES, "variables": VARIABLES}
    lines = ",\n".join(f"    {json.dumps({'template': template, **outcome(template)})}" for template in templates)
    TARGET.write_text(f'{json.dumps(head, indent=2)[:-2]},\n  "texts": [\n{lines}\n  ]\n}}\n', encoding="utf8")
    print(f"{TARGET.name}: {len(templates)} templates")


if __name__ == "__main__":
    main()
