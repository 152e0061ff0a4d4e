import { describe, expect, it } from 'vitest';
import {
  forwardBackwardSchema,
  forwardSchema,
  type JsonPassInput,
  type JsonPassOutput,
  passOutputSchema,
} from '../../../src/schemas/tinker/passes.ts';
import { schemaCheck } from '../../../src/schemas/schema-check.ts';
import { outputJson, outputOf, passOf, passRequest } from '../../../src/tinker/wire/json-pass.ts';
import { textDatum } from '../../../src/tinker/wire/training-pass.ts';
import { floatRow, tokenRow } from '../../../src/tinker/wire/wire-tensor.ts';
import { recorded, withResults } from './recorded-exchanges.ts';

const exchanges = recorded('sdk-0.24.1-skyrl-0.3.0');
const routes = [
  { route: 'forward_backward', input: 'forward_backward_input', schema: forwardBackwardSchema, isForwardOnly: false, count: 3 },
  { route: 'forward', input: 'forward_input', schema: forwardSchema, isForwardOnly: true, count: 2 },
] as const;

describe('passRequest and passOf', () => {
  it.each(routes)('say what the SDK said to $route', ({ route, input, schema, isForwardOnly, count }) => {
    const passes = withResults(exchanges, route);
    expect(passes).toHaveLength(count);
    for (const { request } of passes) {
      const body = request.json!;
      expect(schemaCheck(schema)(body)).toBe(true);
      const read = passOf(body[input] as JsonPassInput);
      const head = { modelId: body['model_id'] as string, seqId: body['seq_id'] as number, isForwardOnly };
      expect(passRequest({ ...head, ...read })).toEqual({ route, body });
    }
  });

  it('refuse ids that 32 bits do not hold, and chunks of no kind', () => {
    const datum = { model_input: { chunks: [{ type: 'encoded_text', tokens: [1] }] }, loss_fn_inputs: {} };
    const one = (changed: object) => () => passOf({ data: [{ ...datum, ...changed }], loss_fn: 'ppo' });
    expect(one({ loss_fn_inputs: { target_tokens: { data: [2 ** 31], dtype: 'int64' } } })).toThrow(
      'data[0].loss_fn_inputs.target_tokens must hold integers of 32 bits, but holds 2147483648.',
    );
    expect(one({ loss_fn_inputs: { target_tokens: { data: [0.5], dtype: 'int64' } } })).toThrow('but holds 0.5.');
    expect(one({ model_input: { chunks: [{ type: 'smell' }] } })).toThrow('data[0].model_input.chunks[0].type must be');
    expect(one({ model_input: { chunks: [{ type: 'encoded_text' }] } })).toThrow('data[0].model_input.chunks[0] must have the key "tokens".');
  });
});

describe('outputJson and outputOf', () => {
  it('read what SkyRL gives for each pass', () => {
    const results = routes.flatMap(({ route }) => withResults(exchanges, route)).map(({ result }) => result.json!);
    for (const result of results) {
      expect(schemaCheck(passOutputSchema)(result)).toBe(true);
      const output = outputOf(result as unknown as JsonPassOutput);
      expect(outputJson(output)).toEqual({ ...result, loss_fn_output_type: 'ArrayRecord' });
      expect(output.data[0]!['logprobs']!.values).toHaveLength(9);
    }
  });

  it('are each other’s inverse', () => {
    const output = { data: [{ logprobs: floatRow(Float32Array.of(-0.1, 2)), ids: tokenRow(Int32Array.of(-1)) }, {}], metrics: { 'loss:sum': 1 } };
    expect(outputOf(JSON.parse(JSON.stringify(outputJson(output))) as JsonPassOutput)).toEqual(output);
    expect(textDatum(Int32Array.of(1), {}).input).toEqual([{ kind: 'text', tokens: Int32Array.of(1) }]);
  });
});
