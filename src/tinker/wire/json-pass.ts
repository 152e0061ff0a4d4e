/** Passes in JSON, as SDKs to 0.24.1 and SkyRL 0.3.0 send and read them. The bodies have been checked against `schemas/tinker/passes.ts`. */
import type { JsonPassInput, JsonPassOutput } from '../../schemas/tinker/passes.ts';
import type { InputChunk, PassOutput, TrainingDatum, TrainingPass } from './training-pass.ts';
import { tensorJson, tensorOfJson, type WireTensor } from './wire-tensor.ts';
import { WireError } from './wire-error.ts';

/** The route and its body. */
export function passRequest({ modelId, seqId, lossFn, lossConfig, isForwardOnly, data }: TrainingPass): {
  readonly route: string;
  readonly body: object;
} {
  const config = Object.keys(lossConfig).length === 0 ? {} : { loss_fn_config: lossConfig };
  const input = { data: data.map(datumJson), loss_fn: lossFn, ...config };
  const head = { model_id: modelId, seq_id: seqId };
  return isForwardOnly
    ? { route: 'forward', body: { ...head, forward_input: input } }
    : { route: 'forward_backward', body: { ...head, forward_backward_input: input } };
}

/** Throws WireError. */
export function passOf({ data, loss_fn: lossFn, loss_fn_config: config }: JsonPassInput): Pick<TrainingPass, 'data' | 'lossFn' | 'lossConfig'> {
  return {
    lossFn,
    lossConfig: config ?? {},
    data: data.map(({ model_input: { chunks }, loss_fn_inputs: inputs }, i) => ({
      input: chunks.map((chunk, k) => chunkOfJson(chunk, `data[${i}].model_input.chunks[${k}]`)),
      lossInputs: tensorsOf(inputs, `data[${i}].loss_fn_inputs.`),
    })),
  };
}

/** Throws WireError. `place`: of the chunk, for errors. */
function chunkOfJson({ type, tokens }: { readonly type: string; readonly tokens?: readonly number[] }, place: string): InputChunk {
  if (type === 'encoded_text') {
    if (tokens === undefined) throw new WireError(`${place} must have the key "tokens".`);
    return { kind: 'text', tokens: Int32Array.from(tokens) };
  }
  if (type === 'image' || type === 'image_asset_pointer') return { kind: 'image' };
  if (type === 'dmel') return { kind: 'audio' };
  throw new WireError(`${place}.type must be "encoded_text", "image", "image_asset_pointer" or "dmel".`);
}

/** The body of a result. */
export function outputJson({ data, metrics }: PassOutput): object {
  const outputs = data.map((tensors) => Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, tensorJson(tensor)])));
  return { loss_fn_output_type: 'ArrayRecord', loss_fn_outputs: outputs, metrics };
}

/** Throws WireError. */
export function outputOf({ loss_fn_outputs: outputs, metrics }: JsonPassOutput): PassOutput {
  return { data: outputs.map((tensors, i) => tensorsOf(tensors, `loss_fn_outputs[${i}].`)), metrics: metrics ?? {} };
}

function datumJson({ input, lossInputs }: TrainingDatum): object {
  return {
    model_input: {
      chunks: input.map((chunk) => {
        if (chunk.kind !== 'text') throw new WireError(`A datum with ${chunk.kind} cannot be sent; send text.`);
        return { type: 'encoded_text', tokens: [...chunk.tokens] };
      }),
    },
    loss_fn_inputs: Object.fromEntries(Object.entries(lossInputs).map(([name, tensor]) => [name, tensorJson(tensor)])),
  };
}

function tensorsOf(given: Readonly<Record<string, Parameters<typeof tensorOfJson>[0]>>, place: string): Record<string, WireTensor> {
  return Object.fromEntries(Object.entries(given).map(([name, tensor]) => [name, tensorOfJson(tensor, `${place}${name}`)]));
}
