import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cellWidth, clip, escapeControls, jsonLine, ownStyles, printable, wrap } from '../../../src/reports/text/terminal-text.ts';

const anyText = fc.string({ unit: 'binary' });
// Written apart from the implementation: Unicode's own categories and properties.
const dangerous = (text: string) => /[\p{Cc}\p{Cs}\p{Bidi_Control}\p{Zl}\p{Zp}]/u.test(text);

describe('escapeControls', () => {
  it.each([
    ['\u001b[2J\u001b]0;title\u0007', '\\x1b[2J\\x1b]0;title\\x07'],
    ['\u009b31m', '\\x9b31m'],
    ['a\r\nb\tc', 'a\\r\\nb\\tc'],
    ['user\u202egpj.exe', 'user\\u202egpj.exe'],
    ['\ud83d alone', '\\ud83d alone'],
    ['\u{e0041}', '\\u{e0041}'],
    ['NUL\0', 'NUL\\x00'],
    ['naïve 中文 🙂 👩\u200d🔬', 'naïve 中文 🙂 👩\u200d🔬'],
  ])('shows %j as %j', (text, shown) => {
    expect(escapeControls(text)).toBe(shown);
  });

  it('keeps line feeds and widens tabs where lines are wanted', () => {
    expect(escapeControls('a\n\tb\u001b', { lines: true })).toBe('a\n    b\\x1b');
  });

  it('leaves nothing that a terminal acts on, whatever the text', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(dangerous(escapeControls(text))).toBe(false);
        expect(dangerous(escapeControls(text, { lines: true }).replaceAll('\n', ''))).toBe(false);
      }),
    );
  });

  it('leaves nothing of the dangerous ranges when each code point stands alone', () => {
    const kept: string[] = [];
    for (let code = 0; code <= 0x10ffff; code++) {
      const text = String.fromCodePoint(code);
      if (dangerous(text) && !escapeControls(text).startsWith('\\')) kept.push(code.toString(16));
    }
    expect(kept).toEqual([]);
  });

  it('changes nothing that is already safe', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const safe = escapeControls(text);
        expect(escapeControls(safe)).toBe(safe);
      }),
    );
  });

  it('takes time that grows only with the text', () => {
    expect(escapeControls('\u001b'.repeat(1_000_000))).toHaveLength(4_000_000);
  });
});

describe('printable', () => {
  it('keeps line feeds and own styles, and escapes whatever else a terminal acts on, the styles of others too', () => {
    const red = '\u001b[1;31mred\u001b[0m\n';
    expect(printable(ownStyles(red))).toBe(red);
    expect(printable(red)).toBe('\\x1b[1;31mred\\x1b[0m\n');
    expect(printable('row \u001b]0;title\u0007 \u001b[2J \u202e \u009b31m\r')).toBe('row \\x1b]0;title\\x07 \\x1b[2J \\u202e \\x9b31m\\r');
  });

  it('takes no text for an own style that was printed before, or guesses its mark', () => {
    const text = `${printable(ownStyles('\u001b[31m'))}\u001b[0123456789abcdef;31m`;
    expect(printable(text)).toBe('\\x1b[31m\\x1b[0123456789abcdef;31m');
  });
});

describe('jsonLine', () => {
  it('holds no character that a terminal acts on, and {any text} unchanged for a reader of JSON', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const line = jsonLine({ [text]: [text] });
        expect(dangerous(line.slice(0, -1))).toBe(false);
        expect(JSON.parse(line)).toEqual(JSON.parse(JSON.stringify({ [text]: [text] })));
      }),
    );
  });
});

describe('wrap', () => {
  it('gives no line wider than asked for and loses nothing but spaces', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 2, max: 40 }), (raw, width) => {
        const text = escapeControls(raw, { lines: true });
        const lines = wrap(text, width);
        for (const line of lines) expect(cellWidth(line)).toBeLessThanOrEqual(width);
        expect(lines.join('').replaceAll(' ', '')).toBe(text.replace(/[ \n]/g, ''));
      }),
    );
  });

  it('keeps white space other than spaces at the end of a line', () => {
    expect(wrap('a\u202f b', 2)).toEqual(['a\u202f', 'b']);
    expect(wrap('\u00a0', 2)).toEqual(['\u00a0']);
  });

  it('breaks at spaces where there are any, and inside a word that is too long', () => {
    expect(wrap('one two three fourteenth\n\nlast', 9)).toEqual(['one two', 'three', 'fourteent', 'h', '', 'last']);
  });

  it('counts a Han character as two columns', () => {
    expect(wrap('中文字', 4)).toEqual(['中文', '字']);
  });
});

describe('clip', () => {
  it('keeps what fits and ends the rest with an ellipsis', () => {
    expect(clip('abcdef', 6)).toBe('abcdef');
    expect(clip('abcdefg', 6)).toBe('abcde…');
    expect(cellWidth(clip('中文字中文字', 5))).toBeLessThanOrEqual(5);
  });
});
