import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GradientError } from '../../../../src/core/errors.ts';
import { encodeFrame, type Frame, FrameDecoder, MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES } from '../../../../src/trainer/gradients/torch/frames.ts';

const frames: fc.Arbitrary<Frame> = fc.record({
  header: fc.dictionary(
    fc.string({ unit: 'grapheme' }).filter((key) => key !== 'arrays' && key !== '__proto__'),
    fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer(), fc.boolean(), fc.constant(null)),
  ),
  arrays: fc.dictionary(fc.stringMatching(/^[a-z_]+$/), fc.oneof(fc.int32Array(), fc.float32Array()), { maxKeys: 4 }),
});
/** Property order and prototypes aside, as the wire has none. */
const plain = (frame: Frame) => ({ header: { ...frame.header }, arrays: { ...frame.arrays } });

function prelude(magic: string, header: number, payload: number): Buffer {
  const bytes = Buffer.alloc(12);
  bytes.write(magic, 'latin1');
  bytes.writeUInt32LE(header, 4);
  bytes.writeUInt32LE(payload, 8);
  return bytes;
}

function errorOf(act: () => unknown): GradientError {
  try {
    act();
  } catch (error) {
    return error as GradientError;
  }
  throw new Error('Expected a refusal, got none');
}

describe('FrameDecoder', () => {
  it('gives back what encodeFrame was given, however the bytes are cut {any frames, any cuts}', () => {
    const check = (sent: readonly Frame[], cuts: readonly number[]) => {
      const bytes = Buffer.concat(sent.map(({ header, arrays }) => encodeFrame(header, arrays)));
      const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
      const decoder = new FrameDecoder();
      const got = places.slice(1).flatMap((end, i) => decoder.push(bytes.subarray(places[i], end)));
      expect(got.map(plain)).toEqual(sent.map(plain));
      expect(decoder.torn).toBe(0);
    };
    fc.assert(fc.property(fc.array(frames, { maxLength: 4 }), fc.array(fc.nat(), { maxLength: 12 }), check));
  });

  it('keeps every bit of a number', () => {
    const f32 = Float32Array.of(NaN, Infinity, -Infinity, -0, 1e-45, 3.4028234663852886e38);
    const [frame] = new FrameDecoder().push(encodeFrame({}, { f32, i32: Int32Array.of(-(2 ** 31), 2 ** 31 - 1) }));
    expect(frame!.arrays).toEqual({ f32, i32: Int32Array.of(-(2 ** 31), 2 ** 31 - 1) });
  });

  it('counts the bytes of a torn frame', () => {
    const bytes = encodeFrame({ id: 1 }, { x: Float32Array.of(1, 2) });
    const decoder = new FrameDecoder();
    expect(decoder.push(bytes.subarray(0, -1))).toEqual([]);
    expect(decoder.torn).toBe(bytes.length - 1);
  });

  it('quotes the first bytes of what is not a frame, as soon as they cannot be one', () => {
    const decoder = new FrameDecoder();
    expect(decoder.push(Buffer.from('VF'))).toEqual([]);
    const error = errorOf(() => decoder.push(Buffer.from('\n loading model ...')));
    expect(error).toBeInstanceOf(GradientError);
    expect([error.code, error.message]).toEqual(['lost', expect.stringContaining(String.raw`"VF\n loading model ..."`)]);
    expect(errorOf(() => new FrameDecoder().push(Buffer.from('h'))).code).toBe('lost');
    expect(errorOf(() => new FrameDecoder().push(Buffer.alloc(1e6, 'x'))).message.length).toBeLessThan(300);
  });

  it.each([
    ['a header over its bound', prelude('VFG1', MAX_HEADER_BYTES + 1, 0)],
    ['a payload over its bound', prelude('VFG1', 2, MAX_PAYLOAD_BYTES + 1)],
    ['a header that is not JSON', Buffer.concat([prelude('VFG1', 2, 0), Buffer.from('{,')])],
    ['a header without arrays', Buffer.concat([prelude('VFG1', 2, 0), Buffer.from('{}')])],
    ['arrays beyond the payload', withArrays('[{"name":"x","dtype":"f32","length":2}]', 4)],
    ['a payload beyond the arrays', withArrays('[{"name":"x","dtype":"f32","length":1}]', 8)],
    ['an array of negative length', withArrays('[{"name":"x","dtype":"f32","length":-1}]', 0)],
  ])('refuses %s', (_, bytes) => {
    expect(errorOf(() => new FrameDecoder().push(bytes)).code).toBe('lost');
  });

  function withArrays(arrays: string, payload: number): Buffer {
    const header = Buffer.from(`{"arrays":${arrays}}`);
    return Buffer.concat([prelude('VFG1', header.length, payload), header, Buffer.alloc(payload)]);
  }
});

describe('encodeFrame', () => {
  it('writes only the view of a larger buffer', () => {
    const view = new Float32Array(8).fill(5).subarray(2, 4);
    expect(new FrameDecoder().push(encodeFrame({}, { view }))[0]!.arrays).toEqual({ view: Float32Array.of(5, 5) });
  });

  it('refuses a header over its bound before anything is sent', () => {
    expect(errorOf(() => encodeFrame({ path: 'x'.repeat(MAX_HEADER_BYTES) }, {})).code).toBe('bad_input');
  });
});
