import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FieldFinder } from '../../src/viewing/top-level-fields.ts';

const NAMES = ['reward', 'stop', '__proto__', 'ä', ''];

function found(text: string, names: readonly string[] = NAMES): Record<string, unknown> | null {
  const finder = new FieldFinder(names);
  // Between other bytes, as in a file.
  const bytes = Buffer.from(`"}\n${text}\n{"reward":"of the next line"}`);
  const end = 3 + Buffer.byteLength(text);
  if (!finder.find(bytes, 3, end)) return null;
  return Object.fromEntries(names.flatMap((name, i) => (finder.has(i) ? [[name, finder.json(i)]] : [])));
}

function parsed(text: string, names: readonly string[] = NAMES): Record<string, unknown> {
  const value = JSON.parse(text) as Record<string, unknown>;
  return Object.fromEntries(names.flatMap((name) => (Object.hasOwn(value, name) ? [[name, value[name]]] : [])));
}

const key = fc.oneof(fc.constantFrom(...NAMES), fc.string({ unit: 'binary' }));
const record = fc.dictionary(key, fc.jsonValue({ stringUnit: 'binary' }), { maxKeys: 12 });

describe('FieldFinder', () => {
  it('finds what JSON.parse finds in { any object, spaced in any way }', () => {
    fc.assert(
      fc.property(record, fc.constantFrom(undefined, 1, 3, '\t'), (value, space) => {
        // Raw line feeds cannot stand in a line.
        const text = JSON.stringify(value, null, space).replaceAll('\n', ' ');
        expect(found(text)).toEqual(parsed(text));
      }),
      { numRuns: 2000 },
    );
  });

  it('finds strings and numbers as JSON.parse does, with { any escapes }', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.double({ noNaN: true, noDefaultInfinity: true }), (text, number) => {
        const escaped = JSON.stringify(text).replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
        const finder = new FieldFinder(['a', 'b']);
        const bytes = Buffer.from(`{"a":${escaped},"b":${JSON.stringify(number)}}`);
        expect(finder.find(bytes, 0, bytes.length)).toBe(true);
        expect(finder.string(0)).toBe(JSON.parse(escaped));
        expect(finder.number(1)).toBe(JSON.parse(JSON.stringify(number)));
      }),
    );
  });

  it('never takes { any beginning of an object } for the whole', () => {
    fc.assert(
      fc.property(record, fc.nat(), (value, cut) => {
        const text = Buffer.from(JSON.stringify(value));
        const finder = new FieldFinder(NAMES);
        expect(finder.find(text, 0, cut % text.length)).toBe(false);
      }),
      { numRuns: 1000 },
    );
  });

  it('ends on { any bytes }, and reads no field outside of them', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.constantFrom('{"reward":', '{"reward":"', '{"a":[{', ''), (noise, start) => {
        const bytes = Buffer.concat([Buffer.from(start), noise, Buffer.from('"stop":7}')]);
        const end = bytes.length - 9;
        const finder = new FieldFinder(['reward', 'stop']);
        finder.find(bytes, 0, end);
        for (const field of [0, 1]) {
          if (!finder.has(field)) continue;
          expect(finder.ends[field]).toBeLessThanOrEqual(end);
          finder.string(field);
          finder.number(field);
          finder.object(field);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('lets the last of two values of a name count, as JSON.parse does', () => {
    expect(found('{"reward":1,"reward":[2]}')).toEqual({ reward: [2] });
  });

  it('takes no line for an object that has something after its end', () => {
    expect(found('{"reward":1} x')).toBeNull();
    expect(found('{"reward":1}}')).toBeNull();
    expect(found('[{"reward":1}]')).toBeNull();
  });

  it('reads NaN and Infinity, which Python writes, as no number or as themselves', () => {
    const finder = new FieldFinder(['a', 'b', 'c']);
    const bytes = Buffer.from('{"a":NaN,"b":-Infinity,"c":"5"}');
    expect(finder.find(bytes, 0, bytes.length)).toBe(true);
    expect([finder.number(0), finder.number(1), finder.number(2)]).toEqual([NaN, -Infinity, NaN]);
  });
});
