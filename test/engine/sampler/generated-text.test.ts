import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GeneratedText, type GeneratedTextOptions } from '../../../src/engine/sampler/generated-text.ts';
import { bytesTable, VOCABULARY, WORDS } from './sampler-run.ts';

const textOf = (stop: Partial<GeneratedTextOptions['stop']> = {}, parts: Partial<GeneratedTextOptions> = {}): GeneratedText =>
  new GeneratedText({
    bytes: WORDS,
    skipSpecialTokens: true,
    streams: true,
    stop: { strings: [], includeString: true, minTokens: 0, ...stop },
    ...parts,
  });

/** As far as it ends with a whole character. */
const decoded = (ids: readonly number[], skipSpecialTokens: boolean): string => {
  for (let n = ids.length; n > 0; n--) {
    const text = whollyDecoded(ids.slice(0, n), skipSpecialTokens);
    if (!text.endsWith('\uFFFD')) return text;
  }
  return '';
};

const whollyDecoded = (ids: readonly number[], skipSpecialTokens: boolean): string => {
  const kept = ids.filter((id) => !skipSpecialTokens || WORDS.special[id] === 0);
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(
    Buffer.concat(kept.map((id) => WORDS.bytes.subarray(WORDS.starts[id], WORDS.starts[id + 1]))),
  );
};

const anyIds = fc.array(fc.nat(VOCABULARY - 1), { maxLength: 40 });

describe('GeneratedText', () => {
  it('is the decoding of all tokens at once except for a tail that forms no character, even when it streams', () => {
    fc.assert(
      fc.property(anyIds, fc.boolean(), fc.boolean(), (ids, skipSpecialTokens, includeString) => {
        const text = textOf({ strings: ['no such'], includeString }, { skipSpecialTokens });
        let streamed = '';
        for (const id of ids) {
          expect(text.push(id, false)).toBeNull();
          streamed += text.takeNew();
        }
        text.finish();
        expect(streamed + text.takeNew()).toBe(decoded(ids, skipSpecialTokens));
        expect(text.text).toBe(decoded(ids, skipSpecialTokens));
      }),
      { numRuns: 300 },
    );
  });

  it('cuts at the first stop string, shows nothing that is cut off, and says which token completed it', () => {
    fc.assert(
      fc.property(anyIds, fc.constantFrom(['ab', 'stop'], ['</a>', '/'], ['é'], ['p']), fc.boolean(), (ids, strings, includeString) => {
        const text = textOf({ strings, includeString });
        let shown = '';
        for (const [i, id] of ids.entries()) {
          const before = decoded(ids.slice(0, i), true);
          const match = text.push(id, false);
          shown += text.takeNew();
          if (match === null) continue;
          const whole = decoded(ids.slice(0, i + 1), true);
          const at = Math.min(...strings.map((each) => (whole.includes(each) ? whole.indexOf(each) + each.length : Infinity)));
          expect(whole.slice(0, at).endsWith(match)).toBe(true);
          expect(strings.every((each) => !before.includes(each))).toBe(true);
          expect(text.text).toBe(whole.slice(0, includeString ? at : at - match.length));
          expect(shown).toBe(text.text);
          return;
        }
        expect(strings.every((each) => !decoded(ids, true).includes(each))).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it('says where each token begins, a half character where the whole one does', () => {
    // é in two tokens, an end token without text, an emoji in one (two UTF-16 units).
    const text = textOf();
    for (const id of [2, 25, 26, 0, 23, 3]) text.push(id, false);
    expect(text.text).toBe('aé😀b');
    expect([...text.offsets]).toEqual([0, 1, 1, 2, 2, 4]);
  });

  it('shows nothing of a hidden token but its offset', () => {
    const text = textOf();
    text.push(2, false);
    text.push(3, true);
    text.finish();
    expect(text.text).toBe('a');
    expect([...text.offsets]).toEqual([0, 1]);
  });

  it('completes the character that the prompt began', () => {
    const text = textOf({}, { prompt: Int32Array.of(2, 25) });
    text.push(26, false);
    text.push(3, false);
    expect(text.text).toBe('éb');
    expect([...text.offsets]).toEqual([0, 1]);
  });

  it('finds a stop string only once the character after it in its token is whole', () => {
    const bytes = bytesTable([[0x73, 0xc3], [0xa9], 'x'], []);
    const text = textOf({ strings: ['s'] }, { bytes });
    expect(text.push(0, false)).toBeNull();
    expect(text.takeNew()).toBe('');
    expect(text.push(1, false)).toBe('s');
    expect(text.text).toBe('s');
  });

  it('holds back what may become a stop string, and nothing where the stop string stays', () => {
    for (const includeString of [true, false]) {
      const text = textOf({ strings: ['</a>'], includeString });
      text.push(2, false);
      text.push(13, false);
      expect(text.takeNew()).toBe(includeString ? 'a</' : 'a');
      text.push(3, false);
      expect(text.takeNew()).toBe(includeString ? 'b' : '</b');
    }
  });

  it('matches no stop string within the first minTokens, and one that only begins there', () => {
    const text = textOf({ strings: ['stop'], minTokens: 2 });
    for (const id of [17, 17]) expect(text.push(id, false)).toBeNull();
    expect(text.push(17, false)).toBe('stop');
    const across = textOf({ strings: ['stop'], minTokens: 1 });
    expect(across.push(16, false)).toBeNull();
    expect(across.push(19, false)).toBe('stop');
  });

  it('matches a stop string that is a control token only where those have text', () => {
    expect(textOf({ strings: ['<end>'] }).push(0, false)).toBeNull();
    expect(textOf({ strings: ['<end>'] }, { skipSpecialTokens: false }).push(0, false)).toBe('<end>');
  });

  it('keeps the tail of a token after a stop string out of the text', () => {
    const bytes = bytesTable(['a</search>\n'], []);
    const text = textOf({ strings: ['</search>'] }, { bytes });
    expect(text.push(0, false)).toBe('</search>');
    expect(text.text).toBe('a</search>');
    expect(text.takeNew()).toBe('a</search>');
  });
});
