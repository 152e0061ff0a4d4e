import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeOutput, decodePass, encodeOutput, encodePass } from '../../../src/tinker/wire/protobuf-pass.ts';
import { type TrainingPass, textDatum } from '../../../src/tinker/wire/training-pass.ts';
import { WireError } from '../../../src/tinker/wire/wire-error.ts';
import { floatRow, tokenRow, type WireTensor } from '../../../src/tinker/wire/wire-tensor.ts';
import { bytesIn, recorded, withResults } from './recorded-exchanges.ts';

const passes = withResults(recorded('sdk-0.38.0'), 'forward_backward');

const float = fc.float({ noNaN: true });
const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const row: fc.Arbitrary<WireTensor> = fc.oneof(
  fc.array(float, { maxLength: 5 }).map((values) => floatRow(Float32Array.from(values))),
  fc.array(int32, { maxLength: 5 }).map((values) => tokenRow(Int32Array.from(values))),
  fc.array(fc.tuple(fc.nat(2), float), { maxLength: 4 }).map((cells): WireTensor => {
    const sorted = cells.toSorted(([a], [b]) => a - b);
    const starts = Int32Array.from([0, 1, 2, 3], (i) => sorted.filter(([at]) => at < i).length);
    const columns = Int32Array.from(sorted, (_, i) => i);
    return { dtype: 'float32', shape: [3, 4], values: Float32Array.from(sorted, ([, value]) => value), sparse: { starts, columns } };
  }),
);
const pass: fc.Arbitrary<TrainingPass> = fc.record({
  modelId: fc.string(),
  seqId: fc.nat(2 ** 31 - 1),
  lossFn: fc.string(),
  lossConfig: fc.dictionary(fc.constantFrom('low', 'high', 'name'), fc.oneof(fc.double({ noNaN: true }), fc.string())),
  isForwardOnly: fc.boolean(),
  data: fc.array(
    fc
      .tuple(fc.array(int32, { maxLength: 6 }), fc.dictionary(fc.constantFrom('weights', 'target_tokens', 'logprobs'), row))
      .map(([ids, tensors]) => textDatum(Int32Array.from(ids), tensors)),
    { maxLength: 3 },
  ),
});

describe('encodePass and decodePass', () => {
  it('say what the SDK said, byte for byte', () => {
    expect(passes).toHaveLength(5);
    for (const { request } of passes) {
      const bytes = bytesIn(request);
      expect(encodePass(decodePass(bytes))).toEqual(bytes);
    }
    const { modelId, seqId, lossFn, isForwardOnly, data } = decodePass(bytesIn(passes[2]!.request));
    expect({ modelId, seqId, lossFn, isForwardOnly }).toEqual({ modelId: 'm1', seqId: 4, lossFn: 'importance_sampling', isForwardOnly: false });
    expect(data).toEqual([
      textDatum(Int32Array.of(1588, 1587, 33, 44, 55, 66, 77, 88, 99), {
        target_tokens: tokenRow(Int32Array.of(1587, 33, 44, 55, 66, 77, 88, 99, 100)),
        logprobs: floatRow(new Float32Array(9).fill(-7)),
        advantages: floatRow(Float32Array.of(0, 0, 0, 0, 1, 1, 1, 1, -1)),
      }),
    ]);
    expect(passes.map(({ request }) => decodePass(bytesIn(request)).isForwardOnly)).toEqual([false, true, false, true, false]);
  });

  it('are each other’s inverse', () => {
    fc.assert(
      fc.property(pass, (given) => {
        expect(decodePass(encodePass(given))).toEqual(given);
      }),
    );
  });

  it('refuse bytes that are no message, tensors that do not fit their shape, and integers of more than 32 bits', () => {
    expect(() => decodePass(Uint8Array.of(0x0a, 0xff))).toThrow(WireError);
    const shaped = (shape: readonly number[]) =>
      encodePass({ ...emptyPass, data: [textDatum(Int32Array.of(1), { weights: { ...floatRow(Float32Array.of(1, 2)), shape } })] });
    expect(() => decodePass(shaped([3]))).toThrow('data[0].loss_fn_inputs.weights has 2 values, but its shape 3 has 3 cells.');
    expect(() => decodePass(shaped([-2, -1]))).toThrow('data[0].loss_fn_inputs.weights has the shape -2 × -1.');
    const bytes = encodePass({ ...emptyPass, data: [textDatum(Int32Array.of(1), { target_tokens: tokenRow(Int32Array.of(7)) })] });
    const at = Buffer.from(bytes).indexOf(Buffer.from([7, 0, 0, 0, 0, 0, 0, 0]));
    bytes[at + 4] = 1;
    expect(() => decodePass(bytes)).toThrow('data[0].loss_fn_inputs.target_tokens holds an integer of more than 32 bits.');
  });
});

const emptyPass: TrainingPass = { modelId: 'm', seqId: 1, lossFn: 'cross_entropy', lossConfig: {}, isForwardOnly: false, data: [] };

describe('encodeOutput and decodeOutput', () => {
  it('say what the SDK read', () => {
    for (const { result } of passes) {
      const bytes = bytesIn(result);
      const output = decodeOutput(bytes);
      expect(encodeOutput(output)).toEqual(bytes);
      expect(output.data).toHaveLength(1);
      expect(output.data[0]!['logprobs']!.shape).toEqual([9]);
    }
    expect(decodeOutput(bytesIn(passes[0]!.result)).metrics['loss:sum']).toBeCloseTo(91.92, 2);
  });

  it('keep data of different lengths apart', () => {
    const data = [1, 0, 3].map((length) => ({
      logprobs: floatRow(new Float32Array(length).fill(length)),
      ids: tokenRow(new Int32Array(length).fill(-length)),
    }));
    const output = { data, metrics: { 'loss:sum': 0.5 } };
    expect(decodeOutput(encodeOutput(output))).toEqual(output);
    expect(decodeOutput(encodeOutput({ data: [], metrics: {} }))).toEqual({ data: [], metrics: {} });
  });
});
