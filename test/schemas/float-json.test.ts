import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeWithFloats } from '../../src/schemas/float-json.ts';
import {
  anyOf,
  byName,
  closed,
  count,
  countOrNull,
  json,
  listOf,
  nullable,
  number,
  numberOrNull,
  object,
  seed,
  text,
  textOrNumber,
} from '../../src/schemas/json-schema.ts';

const schema = object(
  {
    id: textOrNumber,
    reward: numberOrNull,
    metrics: byName(number),
    ids: listOf(count),
    log_probs: listOf(numberOrNull),
    info: json,
    seed,
    spans: listOf(closed({ start: number, tokens: countOrNull })),
    latency: nullable(object({ p50: number })),
  },
  { content: anyOf(text, listOf(object({ width: count }))) },
);
const encode = encodeWithFloats(schema);
const value = {
  id: 3,
  reward: 1,
  metrics: { em: 0, '1': 12, __proto: -2 },
  ids: [0, 1, 7],
  log_probs: [null, -0.5, 0, -3],
  info: { depth: 2, scores: [1, 0.5] },
  seed: 7,
  spans: [{ start: 0, tokens: 4 }],
  latency: { p50: 20 },
};

describe('encodeWithFloats', () => {
  it('writes whole numbers of float columns as floats, and integers and open values as they are', () => {
    expect(encode(value)).toBe(
      '{"id":3,"reward":1.0,"metrics":{"1":12.0,"em":0.0,"__proto":-2.0},"ids":[0,1,7],"log_probs":[null,-0.5,0.0,-3.0],' +
        '"info":{"depth":2,"scores":[1,0.5]},"seed":7,"spans":[{"start":0.0,"tokens":4}],"latency":{"p50":20.0}}',
    );
  });

  it('writes what it does not change as JSON.stringify does: keys beyond the schema, undefined, null, other kinds of values', () => {
    const odd = { ...value, reward: 'none', metrics: [1], log_probs: {}, spans: null, latency: null, further: 1, absent: undefined };
    expect(encode(odd as never)).toBe(JSON.stringify({ ...odd, seed: 7 }));
    expect(encodeWithFloats(object({ ids: listOf(count) }))({ ids: [1, 2] })).toBe('{"ids":[1,2]}');
  });

  it('does not change the value, and keeps a key that is the name of a prototype', () => {
    const metrics = JSON.parse('{"__proto__":1,"constructor":0}') as Record<string, number>;
    const given = Object.freeze({ ...value, metrics: Object.freeze(metrics), log_probs: Object.freeze([...value.log_probs]) });
    const written = encode(given as never);
    expect(written).toContain('"metrics":{"__proto__":1.0,"constructor":0.0}');
    expect(given.metrics).toEqual(JSON.parse('{"__proto__":1,"constructor":0}'));
  });

  it('writes half a surrogate as U+FFFD, which every reader accepts', () => {
    expect(encodeWithFloats(object({ text }))({ text: 'a\ud800 \\ud800 😀' })).toBe(
      String.raw`{"text":"a� \\ud800 😀"}`.replace(String.raw`�`, '\ufffd'),
    );
  });

  it('indents as JSON.stringify does', () => {
    expect(encodeWithFloats(object({ a: number, b: listOf(count) }), { indent: 2 })({ a: 1, b: [1] })).toBe(
      '{\n  "a": 1.0,\n  "b": [\n    1\n  ]\n}',
    );
  });

  it('refuses a schema in which a value may be one of several that hold floats', () => {
    expect(() => encodeWithFloats(anyOf(number, listOf(number)))).toThrow(/several choices/);
  });

  it('{every number of a float column reads back as it was, and is a float to a reader that goes by the text}', () => {
    const numbers = fc.oneof(fc.double(), fc.integer(), fc.constantFrom(1e20, 1e21, 123456789012345680000, 5e-324, -0, 2 ** 53, NaN, Infinity));
    fc.assert(
      fc.property(fc.array(numbers), (xs) => {
        const written = encodeWithFloats(listOf(numberOrNull))(xs);
        expect(JSON.parse(written)).toEqual(JSON.parse(JSON.stringify(xs)));
        for (const item of written.slice(1, -1).split(',')) expect(item).toMatch(/^$|^null$|[.e]/);
      }),
    );
  });
});
