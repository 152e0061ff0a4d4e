import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NumericPolicyError } from '../../src/core/errors.ts';
import { type SampledTokens, TokenBuffer } from '../../src/core/token-buffer.ts';

/** Tokens given by their texts; ids count up from 100, log-probs are -0.1, -0.2, ... */
function sample(pieces: readonly string[], tail = ''): SampledTokens {
  let end = 0;
  const textEnds = Int32Array.from(pieces, (piece) => (end += piece.length));
  const whole = pieces.join('');
  return {
    text: whole.slice(0, whole.length - tail.length),
    tail,
    ids: Int32Array.from(pieces, (_, i) => 100 + i),
    logProbs: Float64Array.from(pieces, (_, i) => -(i + 1) / 10),
    textEnds,
  };
}

function prompted(): TokenBuffer {
  const buffer = new TokenBuffer();
  buffer.appendGiven('prompt', Int32Array.of(1, 2, 3));
  return buffer;
}

describe('TokenBuffer', () => {
  it('keeps the tokens through the one that completes the cut and drops what follows', () => {
    const buffer = prompted();
    expect(buffer.commit(sample(['<search>', 'q', '</search>', 'more', 'text']), '<search>q</search>'.length, 7)).toMatchObject({
      tokens: 3,
      overhang: '',
      isWhole: false,
    });
    expect([...buffer.ids]).toEqual([1, 2, 3, 100, 101, 102]);
    expect([...buffer.mask]).toEqual([0, 0, 0, 1, 1, 1]);
    expect([...buffer.logProbs]).toEqual([NaN, NaN, NaN, -0.1, -0.2, -0.3]);
    expect(buffer.segments).toEqual([
      { kind: 'prompt', start: 0, end: 3, version: null },
      { kind: 'model', start: 3, end: 6, version: 7 },
    ]);
    expect(buffer.promptLength).toBe(3);
  });

  it('keeps the whole token that a cut falls into and names the overhang', () => {
    expect(prompted().commit(sample(['a</', 'search>\n\n', 'x']), 'a</search>'.length, 0)).toMatchObject({ tokens: 2, overhang: '\n\n' });
  });

  it('takes the overhang from the tail when the server cut the text inside the last token', () => {
    const stopped = sample(['a</', 'search>\n'], '\n');
    expect(stopped.text).toBe('a</search>');
    expect(prompted().commit(stopped, stopped.text.length, 0)).toMatchObject({ tokens: 2, overhang: '\n' });
  });

  it('drops a trailing stop token that has no text', () => {
    const buffer = prompted();
    expect(buffer.commit(sample(['done', '']), 4, 0).tokens).toBe(1);
    expect([...buffer.ids]).toEqual([1, 2, 3, 100]);
  });

  it('keeps every sampled token of a whole text where the end of the turn is kept, and none after a cut', () => {
    const buffer = prompted();
    expect(buffer.commit(sample(['do', 'ne', '']), 4, 0, { keepsEnd: true })).toEqual({ tokens: 3, overhang: '', isWhole: true });
    expect([...buffer.mask]).toEqual([0, 0, 0, 1, 1, 1]);
    expect(buffer.logProbs[5]).toBe(-0.3);
    expect(prompted().commit(sample(['do', 'ne', '']), 2, 0, { keepsEnd: true })).toEqual({ tokens: 1, overhang: '', isWhole: false });
    expect(prompted().commit(sample(['']), 0, 0, { keepsEnd: true })).toMatchObject({ tokens: 1, isWhole: true });
  });

  it('accepts the end of a turn later, into the same segment', () => {
    const buffer = prompted();
    const turn = sample(['done', '']);
    const { tokens } = buffer.commit(turn, 4, 7);
    expect(buffer.commitEnd(turn, tokens, 7)).toBe(1);
    expect([...buffer.ids]).toEqual([1, 2, 3, 100, 101]);
    expect(buffer.segments.at(-1)).toEqual({ kind: 'model', start: 3, end: 5, version: 7 });
    turn.logProbs[1] = NaN;
    expect(() => prompted().commitEnd(turn, 1, 7)).toThrow(NumericPolicyError);
  });

  it('keeps the versions that sampled a turn in its segment, cut where the text is cut, and with its end', () => {
    const spans = [
      { version: 4, tokens: 2 },
      { version: 5, tokens: 2 },
    ];
    const mixed = { ...sample(['a', 'b', 'c', '']), versions: spans };
    const whole = prompted();
    const { tokens } = whole.commit(mixed, 3, 4);
    expect(whole.segments.at(-1)).toEqual({ kind: 'model', start: 3, end: 6, version: 4, versions: [spans[0], { version: 5, tokens: 1 }] });
    whole.commitEnd(mixed, tokens, 4);
    expect(whole.segments).toHaveLength(2);
    expect(whole.segments.at(-1)).toEqual({ kind: 'model', start: 3, end: 7, version: 4, versions: spans });
    const cut = prompted();
    cut.commit(mixed, 2, 9);
    expect(cut.segments.at(-1)).toEqual({ kind: 'model', start: 3, end: 5, version: 4 });
  });

  it('keeps no token of an empty text', () => {
    expect(prompted().commit(sample(['']), 0, 0)).toMatchObject({ tokens: 0, overhang: '' });
  });

  it('refuses a kept token whose log-prob is not finite, but not a dropped one', () => {
    const broken = sample(['a', 'b']);
    broken.logProbs[1] = NaN;
    expect(prompted().commit(broken, 1, 0).tokens).toBe(1);
    expect(() => prompted().commit(broken, 2, 0)).toThrow(NumericPolicyError);
    broken.logProbs[1] = -Infinity;
    expect(() => prompted().commit(broken, 2, 0)).toThrow('-Infinity for sampled token 1 (id 101)');
  });

  it('gives environment tokens mask 0 and no log-prob', () => {
    const buffer = prompted();
    buffer.appendGiven('observation', Int32Array.of(9, 9));
    expect([...buffer.mask]).toEqual([0, 0, 0, 0, 0]);
    expect(buffer.logProbs.every(Number.isNaN)).toBe(true);
    expect(buffer.segments[1]).toEqual({ kind: 'observation', start: 3, end: 5, version: null });
  });

  it('only ever grows: every append leaves what was there', () => {
    const piece = fc.string({ maxLength: 4 });
    const turn = fc.record({ pieces: fc.array(piece, { maxLength: 20 }), keep: fc.nat(40), observation: fc.array(fc.nat(1000), { maxLength: 900 }) });
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 6 }), (turns) => {
        const buffer = prompted();
        for (const { pieces, keep, observation } of turns) {
          const before = [...buffer.ids];
          const drawn = sample(pieces);
          const { tokens } = buffer.commit(drawn, Math.min(keep, drawn.text.length), 1);
          buffer.appendGiven('observation', Int32Array.from(observation));
          expect([...buffer.ids.subarray(0, before.length)]).toEqual(before);
          expect(buffer.length).toBe(before.length + tokens + observation.length);
        }
        const covered = buffer.segments.flatMap((s) => Array.from({ length: s.end - s.start }, () => (s.kind === 'model' ? 1 : 0)));
        expect([...buffer.mask]).toEqual(covered);
        expect([...buffer.logProbs].map((l) => (Number.isNaN(l) ? 0 : 1))).toEqual(covered);
      }),
      { numRuns: 100 },
    );
  });

  it('keeps the images of what was given, where they are in the whole sequence, with mask 0', () => {
    const image = (sha256: string, offset: number, length: number) => ({ sha256, mediaType: 'image/png', width: 56, height: 56, offset, length });
    const buffer = new TokenBuffer();
    buffer.appendGiven('prompt', Int32Array.of(1, 7, 8, 8, 9), [image('a', 2, 2)]);
    buffer.commit(sample(['x', 'y']), 2, 0);
    buffer.appendGiven('observation', Int32Array.of(7, 8, 9, 7, 8, 8, 9), [image('b', 1, 1), image('a', 4, 2)]);
    expect(buffer.images).toEqual([image('a', 2, 2), image('b', 8, 1), image('a', 11, 2)]);
    const { ids, mask } = buffer;
    for (const { offset, length } of buffer.images) {
      expect([...ids.subarray(offset, offset + length)]).toEqual(Array.from({ length }, () => 8));
      expect([...mask.subarray(offset, offset + length)]).toEqual(Array.from({ length }, () => 0));
    }
  });

  it('has no images where none were given', () => {
    expect(prompted().images).toEqual([]);
  });
});
