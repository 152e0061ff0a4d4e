import { describe, expect, test } from 'vitest';
import { httpErrorText } from '../../src/transport/http-endpoint.ts';
import { redactSecrets } from '../../src/transport/redact.ts';

const KEY = 'sk-proj-QuoTe/Zq7+x=SECRET_KEYäbc';
const each = (spell: (character: string) => string) => Array.from(KEY, spell).join('');
const marks = (spell: (character: string) => string) => KEY.replace(/[^\w-]/g, spell);
const code = (character: string, radix = 16) => character.codePointAt(0)!.toString(radix);
const base64 = (text: string) => Buffer.from(text).toString('base64');

describe('hideSpellings', () => {
  test.each([
    ['the slash of PHP', KEY.replaceAll('/', '\\/')],
    ['JSON escapes of marks', marks((c) => `\\u${code(c).padStart(4, '0')}`)],
    ['JSON escapes of every character', each((c) => `\\u${code(c).padStart(4, '0').toUpperCase()}`)],
    ['JSON in JSON', JSON.stringify(JSON.stringify(marks((c) => `\\u${code(c).padStart(4, '0')}`)))],
    ['\\x escapes', each((c) => `\\x${code(c).padStart(2, '0')}`)],
    ['percent signs', encodeURIComponent(KEY)],
    ['percent signs in lower case', encodeURIComponent(KEY).replace(/%../g, (part) => part.toLowerCase())],
    ['percent signs twice', encodeURIComponent(encodeURIComponent(KEY))],
    ['hexadecimal entities', marks((c) => `&#x${code(c).toUpperCase()};`)],
    ['decimal entities of every character', each((c) => `&#${code(c, 10)};`)],
    ['entities with zeros', marks((c) => `&#x000${code(c)};`)],
    ['named entities', KEY.replace('/', '&sol;').replace('+', '&plus;').replace('=', '&equals;').replace('_', '&lowbar;')],
    ['entities in JSON', JSON.stringify(marks((c) => `&amp;#${code(c, 10)};`))],
    ['hexadecimal', Buffer.from(KEY).toString('hex')],
  ])('hides a secret in %s, and nothing around it', (_name, spelled) => {
    const quotes = spelled.startsWith('"') ? /"/g : /(?!)/g;
    expect(redactSecrets(`a%2Fb &amp; ${spelled} c\\u002bd`, [KEY]).replace(quotes, '').replaceAll('\\', '')).toBe('a%2Fb &amp; *** cu002bd');
  });

  test.each(['', 'u', 'me', 'user', 'other'])('hides all but the edges of the secret’s base64 behind "%s:"', (user) => {
    for (const encoding of ['base64', 'base64url'] as const)
      for (const escape of [String, encodeURIComponent, (text: string) => text.replaceAll('/', '\\/')]) {
        const spelled = Buffer.from(`${user}:${KEY}?>~`).toString(encoding);
        const left = redactSecrets(escape(spelled), [KEY]);
        expect(left).toContain('***');
        expect(left.length).toBeLessThanOrEqual(base64(`${user}:?>~`).length + 20);
      }
  });

  test('leaves escapes, entities and base64 of other texts as they are', () => {
    const text = `\\u0041 %41%zz &amp;lt; \\\\server\\share &#99999999; &#xffffff; &nosuch; ${base64('another text')}`;
    expect(redactSecrets(text, [KEY, 'abcd'])).toBe(text);
  });

  test.each([
    ['backslashes', '\\'],
    ['entities', '&#x0'],
    ['percent signs', '%25'],
    ['secrets', '\\u0073\\u0065\\u0063ret'],
  ])('reads 128 KiB of %s in one pass', (_name, piece) => {
    expect(redactSecrets(piece.repeat(2 ** 17 / piece.length), ['secret']).length).toBeGreaterThan(0);
  });
});

describe('httpErrorText', () => {
  test('quotes no beginning of a secret where a long body was cut', () => {
    const spelled = each((c) => `&#x${code(c)};`);
    for (let shift = 0; shift < spelled.length; shift += 7)
      expect(
        httpErrorText('POST', 'http://h', 400, 'x'.repeat(shift) + spelled.repeat(200), (text) => redactSecrets(text, [KEY])).includes('&#x'),
      ).toBe(false);
  });
});
