"""Thirty small programs, each with ten inputs and a message: the start of a self-play run with a language model.

    python3 scripts/python-programs/programs.py > datasets/python-programs/train.jsonl

Written for this package (Apache-2.0). Each program becomes a task `code_o`, a task `code_i` and a task `code_f`. Standard library only; prints the same bytes every time.
"""

import json

PROGRAMS = [
    ("running-total", "Sums with a memory.", ["[3, 1, 4]", "[]", "[5]", "[1, 1, 1, 1]", "[-2, 2, -2]", "[10, 20]", "[0, 0, 7]", "[2, 3, 5, 7]", "[100, -1]", "[9, 9]"], '''
def f(numbers):
    total = 0
    sums = []
    for number in numbers:
        total += number
        sums.append(total)
    return sums'''),
    ("vowel-positions", "Where the singing letters are.", ["'banana'", "''", "'sky'", "'Audio'", "'aeiou'", "'xylophone'", "'Queue'", "'rhythm'", "'Ohio'", "'tree'"], '''
def f(word):
    return [i for i, letter in enumerate(word.lower()) if letter in 'aeiou']'''),
    ("collatz-steps", "How long until it rests.", ["6", "1", "2", "7", "27", "16", "9", "12", "3", "19"], '''
def f(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps'''),
    ("group-by-length", "Words find words of their size.", ["['a', 'bb', 'c', 'dd']", "[]", "['one', 'two', 'three']", "['x']", "['aa', 'bb', 'aa']", "['', 'a']", "['tea', 'cup', 'pot', 'saucer']", "['no', 'yes', 'maybe']", "['abc', 'de', 'f']", "['same', 'size']"], '''
def f(words):
    groups = {}
    for word in words:
        groups.setdefault(len(word), []).append(word)
    return groups'''),
    ("balanced", "Do the brackets agree, and how deep do they go?", ["'(())'", "''", "')('", "'(()'", "'()()'", "'((()))'", "'a(b)c'", "'(a(b)c)'", "'())('", "'(((('"], '''
def f(text):
    depth = deepest = 0
    for character in text:
        if character == '(':
            depth += 1
            deepest = max(deepest, depth)
        elif character == ')':
            depth -= 1
            if depth < 0:
                return -1
    return deepest if depth == 0 else -1'''),
    ("digits-back", "The same number, seen in a mirror.", ["120", "0", "-45", "7", "1000", "-900", "12321", "-8", "98", "5040"], '''
def f(n):
    sign = -1 if n < 0 else 1
    return sign * int(str(abs(n))[::-1])'''),
    ("run-lengths", "Count what repeats, side by side.", ["'aabccc'", "''", "'abc'", "'zzzz'", "'aabbaa'", "'112233'", "'x'", "'mississippi'", "'  a'", "'aaAA'"], '''
def f(text):
    runs = []
    for character in text:
        if runs and runs[-1][0] == character:
            runs[-1] = (character, runs[-1][1] + 1)
        else:
            runs.append((character, 1))
    return runs'''),
    ("shift-letters", "An old secret writing.", ["'abc', 1", "'xyz', 3", "'Hello', 5", "'', 9", "'aBcD', 26", "'z', -1", "'go on', 2", "'Python', 13", "'m', 13", "'A1', 4"], '''
def f(text, shift):
    def moved(letter):
        first = ord('A') if letter.isupper() else ord('a')
        return chr(first + (ord(letter) - first + shift) % 26)
    return ''.join(moved(letter) if letter.isalpha() else letter for letter in text)'''),
    ("two-largest", "Gold and silver.", ["[3, 9, 4]", "[1, 2]", "[5, 5, 1]", "[-1, -5, -3]", "[10, 0, 10, 2]", "[7, 8, 9, 6]", "[0, 0]", "[100, 1, 50]", "[2, 1, 3]", "[4, 4, 4]"], '''
def f(numbers):
    best = second = None
    for number in numbers:
        if best is None or number > best:
            best, second = number, best
        elif second is None or number > second:
            second = number
    return best, second'''),
    ("spiral", "Walk around the table and inwards.", ["[[1, 2], [3, 4]]", "[[1]]", "[[1, 2, 3], [4, 5, 6], [7, 8, 9]]", "[[1, 2, 3]]", "[[1], [2], [3]]", "[[1, 2], [3, 4], [5, 6]]", "[]", "[['a', 'b'], ['c', 'd']]", "[[0, 0], [0, 1]]", "[[5, 6, 7], [8, 9, 10]]"], '''
def f(grid):
    rows = [list(row) for row in grid]
    path = []
    while rows:
        path += rows.pop(0)
        rows = [list(column) for column in zip(*rows)][::-1]
    return path'''),
    ("common-prefix", "What they all begin with.", ["['flower', 'flow', 'flight']", "['a']", "[]", "['abc', 'abd']", "['', 'x']", "['same', 'same']", "['dog', 'cat']", "['inter', 'internet', 'interval']", "['aaa', 'aa']", "['Ab', 'ab']"], '''
def f(words):
    if not words:
        return ''
    prefix = words[0]
    for word in words[1:]:
        while not word.startswith(prefix):
            prefix = prefix[:-1]
    return prefix'''),
    ("prime-factors", "Taken apart.", ["12", "1", "7", "100", "84", "97", "64", "30", "49", "99"], '''
def f(n):
    factors = []
    divisor = 2
    while n > 1:
        while n % divisor == 0:
            factors.append(divisor)
            n //= divisor
        divisor += 1
    return factors'''),
    ("merge-counts", "Two shopping lists become one.", ["{'a': 1}, {'a': 2}", "{}, {}", "{'x': 3}, {'y': 4}", "{'a': 1, 'b': 2}, {'b': 5}", "{'n': -1}, {'n': 1}", "{'k': 0}, {}", "{'p': 2, 'q': 2}, {'q': 1, 'p': 1}", "{}, {'z': 9}", "{'a': 10}, {'b': 1, 'a': 1}", "{'t': 5}, {'t': -7}"], '''
def f(first, second):
    merged = dict(first)
    for key, count in second.items():
        merged[key] = merged.get(key, 0) + count
    return {key: count for key, count in sorted(merged.items()) if count != 0}'''),
    ("pig-latin", "A game with the first sounds of words.", ["'apple'", "'string'", "'cat dog'", "'egg'", "'shy'", "'I see'", "'rhythm'", "'under water'", "'train'", "'a b'"], '''
def f(sentence):
    def turned(word):
        for i, letter in enumerate(word):
            if letter in 'aeiouAEIOU':
                return word[i:] + word[:i] + 'ay'
        return word + 'ay'
    return ' '.join(turned(word) for word in sentence.split())'''),
    ("longest-climb", "How long does it go up?", ["[1, 2, 2, 3, 4]", "[]", "[5]", "[3, 2, 1]", "[1, 2, 3]", "[1, 3, 2, 4, 5, 6]", "[0, 0, 0]", "[2, 4, 1, 5]", "[9, 1, 2, 9, 1]", "[-3, -2, -1]"], '''
def f(numbers):
    longest = length = 0
    previous = None
    for number in numbers:
        length = length + 1 if previous is not None and number > previous else 1
        longest = max(longest, length)
        previous = number
    return longest'''),
    ("roman", "As on old clocks.", ["4", "9", "14", "40", "1994", "3", "58", "2024", "99", "500"], '''
def f(n):
    signs = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'), (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]
    written = ''
    for value, sign in signs:
        while n >= value:
            written += sign
            n -= value
    return written'''),
    ("transpose-text", "Read it downwards.", ["'ab\\ncd'", "'abc'", "''", "'a\\nb\\nc'", "'xy\\nz'", "'one\\ntwo'", "'a'", "'12\\n34\\n56'", "'long\\ns'", "'  \\nab'"], '''
def f(text):
    lines = text.split('\\n')
    width = max(len(line) for line in lines)
    padded = [line.ljust(width, '.') for line in lines]
    return '\\n'.join(''.join(column) for column in zip(*padded))'''),
    ("change", "Paying with few coins.", ["63", "0", "4", "25", "99", "41", "10", "7", "30", "88"], '''
def f(cents):
    coins = {}
    for coin in (25, 10, 5, 1):
        count, cents = divmod(cents, coin)
        if count:
            coins[coin] = count
    return coins'''),
    ("flatten", "Open every box.", ["[1, [2, [3]]]", "[]", "[[], [[]]]", "[1, 2]", "[[1], [2], [3]]", "['a', ['b']]", "[[[[5]]]]", "[0, [1, 2], 3]", "[[1, [2]], [3, [4]]]", "[[9, 8], 7]"], '''
def f(nested):
    flat = []
    stack = [nested]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(reversed(item))
        else:
            flat.append(item)
    return flat'''),
    ("anagram-key", "Letters in order, with how often.", ["'listen'", "'silent'", "''", "'banana'", "'zzz'", "'abc'", "'cab'", "'hello'", "'a'", "'mama'"], '''
def f(word):
    return ''.join(f'{letter}{word.count(letter)}' for letter in sorted(set(word)))'''),
    ("window-max", "The best of each view.", ["[1, 3, 2, 5], 2", "[4], 1", "[9, 8, 7], 3", "[1, 2, 3, 4], 1", "[5, 1, 5, 1], 2", "[2, 2, 2], 2", "[0, -1, -2], 2", "[6, 5, 4, 7], 3", "[1, 9, 1, 9], 4", "[3, 1], 2"], '''
def f(numbers, size):
    return [max(numbers[i:i + size]) for i in range(len(numbers) - size + 1)]'''),
    ("title-case", "A headline with small words.", ["'the lord of the rings'", "'a tale'", "''", "'war and peace'", "'of mice'", "'GO ON'", "'to be or not to be'", "'in the end'", "'one'", "'the'"], '''
def f(title):
    small = {'a', 'and', 'in', 'of', 'or', 'the', 'to'}
    words = title.lower().split()
    return ' '.join(word if i > 0 and word in small else word.capitalize() for i, word in enumerate(words))'''),
    ("josephus", "Who is left in the circle?", ["7, 3", "1, 5", "5, 2", "6, 1", "10, 4", "4, 4", "8, 2", "3, 7", "9, 3", "2, 2"], '''
def f(people, step):
    circle = list(range(1, people + 1))
    at = 0
    while len(circle) > 1:
        at = (at + step - 1) % len(circle)
        circle.pop(at)
    return circle[0]'''),
    ("look-and-say", "Say what you see.", ["'1', 3", "'1', 1", "'22', 2", "'3', 4", "'7', 0", "'111', 1", "'12', 2", "'0', 2", "'55', 1", "'9', 3"], '''
def f(digits, rounds):
    for _ in range(rounds):
        said = ''
        i = 0
        while i < len(digits):
            end = i
            while end < len(digits) and digits[end] == digits[i]:
                end += 1
            said += str(end - i) + digits[i]
            i = end
        digits = said
    return digits'''),
    ("intersection", "What both have, without repeats, in the first one's order.", ["[1, 2, 2, 3], [2, 3, 4]", "[], [1]", "[5, 5], [5]", "[1, 2], [3]", "['a', 'b'], ['b', 'a']", "[3, 1, 2], [2, 1]", "[0], [0, 0]", "[7, 8, 7], [7]", "[1, 2, 3, 4], [4, 2]", "[9, 6, 3], [3, 6, 9]"], '''
def f(first, second):
    kept = []
    for item in first:
        if item in second and item not in kept:
            kept.append(item)
    return kept'''),
    ("digital-root", "Add until one remains.", ["38", "0", "9", "999", "123456", "10", "7", "88", "1001", "65536"], '''
def f(n):
    path = [n]
    while n > 9:
        n = sum(int(digit) for digit in str(n))
        path.append(n)
    return path'''),
    ("zigzag", "Up and down the rails.", ["'ABCDEF', 2", "'PAYPALISHIRING', 3", "'A', 1", "'abcd', 4", "'hello', 2", "'', 3", "'abcdefgh', 3", "'xy', 5", "'zigzag', 2", "'12345', 1"], '''
def f(text, rails):
    if rails == 1:
        return text
    rows = [''] * rails
    row, down = 0, True
    for character in text:
        rows[row] += character
        if row == rails - 1:
            down = False
        elif row == 0:
            down = True
        row += 1 if down else -1
    return ''.join(rows)'''),
    ("histogram", "Bars that lie down.", ["{'a': 3, 'b': 1}", "{}", "{'x': 0}", "{'one': 1, 'two': 2}", "{'z': 5}", "{'n': 2, 'm': 2}", "{'long': 1, 's': 4}", "{'q': 1, 'p': 3}", "{'aa': 2}", "{'b': 2, 'a': 2}"], '''
def f(counts):
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [name + ' ' + '#' * count for name, count in ordered]'''),
    ("next-smaller", "Who stands lower, further on?", ["[4, 2, 3, 1]", "[]", "[1]", "[1, 2, 3]", "[3, 2, 1]", "[2, 2, 1]", "[5, 7, 6, 4]", "[0, -1]", "[8, 3, 5, 3]", "[6, 6, 6]"], '''
def f(numbers):
    found = []
    for i, number in enumerate(numbers):
        lower = [later for later in numbers[i + 1:] if later < number]
        found.append(lower[0] if lower else None)
    return found'''),
    ("compress-ranges", "Neighbours hold hands.", ["[1, 2, 3, 5]", "[]", "[4]", "[1, 3, 5]", "[7, 8]", "[0, 1, 2, 3, 4]", "[10, 11, 20, 21, 22]", "[-2, -1, 0]", "[1, 2, 4, 5]", "[100]"], '''
def f(numbers):
    ranges = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return [str(a) if a == b else f'{a}-{b}' for a, b in ranges]'''),
]


def rows():
    for name, message, inputs, code in PROGRAMS:
        code = code.strip("\n")
        names = {}
        exec(code, names)
        outputs = [repr(eval(f"f({call})", names)) for call in inputs]
        for kind in ("code_o", "code_i"):
            yield {"id": f"{name}-{kind}", "kind": kind, "code": code, "input": inputs[0], "output": outputs[0]}
        yield {"id": f"{name}-code_f", "kind": "code_f", "code": code, "inputs": inputs, "outputs": outputs, "message": message}


if __name__ == "__main__":
    for row in rows():
        print(json.dumps(row, ensure_ascii=False))
