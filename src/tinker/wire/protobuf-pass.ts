/** Passes in protobuf, as SDKs from 0.25.0 on send and read them. */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { thrownText } from '../../core/errors.ts';
import {
  ArrayRecordSchema,
  type BatchedTensor,
  BatchedTensorSchema,
  type Chunk,
  ChunkSchema,
  DatumSchema,
  ForwardBackwardOutputSchema,
  type ForwardBackwardRequest,
  ForwardBackwardRequestSchema,
  LossConfigValueSchema,
  TensorSchema,
} from './generated/tinker-public.ts';
import type { InputChunk, PassOutput, TrainingDatum, TrainingPass } from './training-pass.ts';
import { assertBoundedPass } from './message-bounds.ts';
import { WireError } from './wire-error.ts';
import { bytesOf, floats, int64Bytes, integers, tensorBytes, tensorOf, type WireTensor } from './wire-tensor.ts';

const RECORD = 'ArrayRecord';
/** Data of a result in which nothing is said of them. */
const MOST_EMPTY = 2 ** 16;
const [FLOAT32, INT64, INT32, BFLOAT16] = [1, 2, 3, 4] as const;

export function encodePass({ modelId, seqId, lossFn, lossConfig, isForwardOnly, data }: TrainingPass): Uint8Array {
  const settings = Object.entries(lossConfig);
  const numbers = settings.filter((entry): entry is [string, number] => typeof entry[1] === 'number');
  return toBinary(
    ForwardBackwardRequestSchema,
    create(ForwardBackwardRequestSchema, {
      modelId,
      seqId,
      lossFn,
      forwardOnly: isForwardOnly,
      data: data.map(datumMessage),
      // Servers from before the second map read the first.
      lossFnConfig: Object.fromEntries(numbers),
      lossFnConfigV2: Object.fromEntries(settings.map(([name, value]) => [name, create(LossConfigValueSchema, { value: configValue(value) })])),
    }),
  );
}

/** Throws WireError. */
export function decodePass(bytes: Uint8Array): TrainingPass {
  assertBoundedPass(bytes);
  const message = decoded('The pass', () => fromBinary(ForwardBackwardRequestSchema, bytes));
  return {
    modelId: message.modelId,
    seqId: message.seqId,
    lossFn: message.lossFn,
    lossConfig: configOf(message),
    isForwardOnly: message.forwardOnly,
    data: message.data.map(({ modelInput, lossFnInputs }, i) => ({
      input: modelInput.map((chunk, k) => chunkOf(chunk, `data[${i}].model_input[${k}]`)),
      lossInputs: mapped(lossFnInputs, (tensor, name) => tensorOf(tensor, `data[${i}].loss_fn_inputs.${name}`)),
    })),
  };
}

/** Every datum has the same tensors, and all tensors of a name have one type and one width. */
export function encodeOutput({ data, metrics }: PassOutput): Uint8Array {
  const names = Object.keys(data[0] ?? {});
  const fields = Object.fromEntries(names.map((name) => [name, batched(data.map((tensors) => tensors[name]!))]));
  return toBinary(
    ForwardBackwardOutputSchema,
    create(ForwardBackwardOutputSchema, {
      lossFnOutputType: RECORD,
      lossFnOutputs: [create(ArrayRecordSchema, { typeTag: RECORD, fields, numDatums: BigInt(data.length) })],
      metrics,
    }),
  );
}

/** Throws WireError. */
export function decodeOutput(bytes: Uint8Array): PassOutput {
  const { lossFnOutputs, metrics } = decoded('The result of a pass', () => fromBinary(ForwardBackwardOutputSchema, bytes));
  const data = lossFnOutputs.flatMap(({ fields, numDatums }) => {
    const columns = Object.entries(fields).map(([name, tensor]) => [name, split(tensor, name)] as const);
    // Older messages have no count.
    const count = Number(numDatums) || (columns[0]?.[1].length ?? 0);
    if (columns.length === 0 && count > MOST_EMPTY) throw new WireError(`A result without tensors says that it has ${count} data.`);
    const short = columns.find(([, rows]) => rows.length !== count);
    if (short !== undefined) throw new WireError(`${short[0]} of a result has ${short[1].length} data of ${count}.`);
    return Array.from({ length: count }, (_, i) => Object.fromEntries(columns.map(([name, rows]) => [name, rows[i]!])));
  });
  return { data, metrics };
}

/** Runs a decoder of the library. Throws WireError. */
export function decoded<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw new WireError(`${what} is no valid protobuf message: ${thrownText(cause)}.`, { cause });
  }
}

function datumMessage({ input, lossInputs }: TrainingDatum) {
  return create(DatumSchema, {
    modelInput: input.map((chunk) => {
      if (chunk.kind !== 'text') throw new WireError(`A datum with ${chunk.kind} cannot be sent; send text.`);
      return create(ChunkSchema, {
        chunk: { case: 'encodedText', value: { $typeName: 'tinker_public.EncodedTextChunk', tokens: bytesOf(chunk.tokens) } },
      });
    }),
    lossFnInputs: mapped(lossInputs, (tensor) => create(TensorSchema, tensorBytes(tensor))),
  });
}

function chunkOf({ chunk }: Chunk, name: string): InputChunk {
  if (chunk.case === 'encodedText') return { kind: 'text', tokens: integers(chunk.value.tokens, INT32, name) };
  if (chunk.case === 'image') return { kind: 'image' };
  if (chunk.case === 'dmel') return { kind: 'audio' };
  throw new WireError(`${name} is neither text nor an image nor sound.`);
}

function configValue(value: number | string) {
  return typeof value === 'number' ? ({ case: 'number', value } as const) : ({ case: 'text', value } as const);
}

function configOf({ lossFnConfig, lossFnConfigV2 }: ForwardBackwardRequest): Record<string, number | string> {
  const settings = mapped(lossFnConfigV2, ({ value }, name) => {
    if (value.case === undefined) throw new WireError(`loss_fn_config.${name} has no value.`);
    return value.value;
  });
  return { ...lossFnConfig, ...settings };
}

function batched(tensors: readonly WireTensor[]): BatchedTensor {
  const isFloat = tensors[0]!.dtype === 'float32';
  const parts = tensors.map(({ dtype, values }) => (dtype === 'float32' ? bytesOf(values) : int64Bytes(values)));
  const offsets = [0];
  for (const { length } of parts) offsets.push(offsets.at(-1)! + length);
  const data = new Uint8Array(offsets.at(-1)!);
  parts.forEach((part, i) => data.set(part, offsets[i]));
  return create(BatchedTensorSchema, {
    data,
    offsets: int64Bytes(offsets),
    dtype: isFloat ? FLOAT32 : INT64,
    trailingShape: tensors[0]!.shape.slice(1).map(BigInt),
  });
}

/** The tensors of a batch, one per datum. */
function split({ data, offsets, dtype, trailingShape }: BatchedTensor, name: string): readonly WireTensor[] {
  const ends = integers(offsets, INT64, `the offsets of ${name}`);
  const isFloat = dtype === FLOAT32 || dtype === BFLOAT16;
  const size = { [FLOAT32]: 4, [INT64]: 8, [INT32]: 4, [BFLOAT16]: 2 }[dtype] ?? 1;
  const trailing = trailingShape.map(Number);
  const width = trailing.reduce((product, each) => product * each, 1);
  const all = isFloat ? floats(data, dtype, name) : integers(data, dtype, name);
  return Array.from({ length: Math.max(0, ends.length - 1) }, (_, i): WireTensor => {
    const [from, to] = [ends[i]! / size, ends[i + 1]! / size];
    const rows = (to - from) / width;
    if (!(Number.isInteger(from) && Number.isInteger(rows) && from >= 0 && rows >= 0 && to <= all.length))
      throw new WireError(`${name} of a result has offsets that do not fit its values.`);
    const placed = { shape: [rows, ...trailing], sparse: null };
    return isFloat
      ? { ...placed, dtype: 'float32', values: all.slice(from, to) as Float32Array }
      : { ...placed, dtype: 'int64', values: all.slice(from, to) as Int32Array };
  });
}

function mapped<V, W>(record: Readonly<Record<string, V>>, change: (value: V, name: string) => W): Record<string, W> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value, name)]));
}
