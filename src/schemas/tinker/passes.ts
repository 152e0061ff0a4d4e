/** Passes over training data as JSON, as SDKs to 0.24.1 and SkyRL 0.3.0 say them. Unknown keys are allowed: every release adds some. */
import type { XStatic } from 'typebox/schema';
import { byName, choice, count, filledText, listOf, nullable, number, object, text, tokenIds } from '../json-schema.ts';

const indices = { type: 'array', items: { type: 'integer', minimum: 0, maximum: 2 ** 31 - 1 } } as const;
export const tensorSchema = object(
  { data: listOf(number), dtype: choice('float32', 'int64') },
  { shape: nullable(indices), sparse_crow_indices: nullable(indices), sparse_col_indices: nullable(indices) },
);
/** Other chunks are images and sounds. */
const chunkSchema = object({ type: text }, { tokens: tokenIds });
export const inputSchema = object({ chunks: listOf(chunkSchema) });
const datumSchema = object({ model_input: inputSchema, loss_fn_inputs: byName(tensorSchema) });
const passInputSchema = object(
  { data: listOf(datumSchema), loss_fn: filledText },
  { loss_fn_config: nullable(byName({ type: ['number', 'string'] } as const)) },
);
/** `POST forward_backward`. */
export const forwardBackwardSchema = object({ model_id: text, forward_backward_input: passInputSchema }, { seq_id: nullable(count) });
/** `POST forward`. */
export const forwardSchema = object({ model_id: text, forward_input: passInputSchema }, { seq_id: nullable(count) });
/** The result of both. */
export const passOutputSchema = object(
  { loss_fn_outputs: listOf(byName(tensorSchema)) },
  { metrics: nullable(byName(number)), loss_fn_output_type: text },
);

export type JsonPassInput = XStatic<typeof passInputSchema>;
export type JsonPassOutput = XStatic<typeof passOutputSchema>;
