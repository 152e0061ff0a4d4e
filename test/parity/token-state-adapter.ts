/** Rebuilds upstream's padded matrices from one TokenBuffer per row: right padding for training, left padding for the next context. */
import { TokenBuffer } from '../../src/core/token-buffer.ts';
import type { Adapter } from './vectors.ts';

type Matrix = readonly (readonly number[])[];

interface Step {
  readonly cur_responses: Matrix;
  readonly next_obs_ids: Matrix | null;
}

interface Input extends Step {
  readonly op: string;
  readonly pad_id: number;
  readonly max_prompt_length: number;
  /** Earlier steps, for op right_side. */
  readonly prior?: readonly Step[];
  /** The context so far, for op rolling. */
  readonly input_ids?: Matrix;
}

export const tokenStateAdapter: Adapter = {
  actual: (input: Input) => {
    if (input.op === 'right_side') return rightSide(input);
    if (input.op === 'rolling') return rolling(input);
    throw new Error(`Unknown op ${input.op}; known are right_side and rolling.`);
  },
};

/** What upstream trains on: the head of responses and observations, and the same with observations replaced by padding. */
function rightSide({ pad_id: pad, max_prompt_length: limit, ...input }: Input): unknown {
  const rows = buffers([...(input.prior ?? []), input], pad, input.cur_responses.length);
  const width = Math.min(limit, Math.max(...rows.map((row) => row.length)));
  const responses = rows.map((row) => padded([...row.ids.subarray(0, width)], width, pad));
  const masked = rows.map((row) =>
    padded(
      Array.from(row.ids.subarray(0, width), (id, i) => (row.mask[i] === 1 ? id : pad)),
      width,
      pad,
    ),
  );
  return {
    responses,
    responses_with_info_mask: masked,
    info_mask: masked.map((row) => row.map((id) => Number(id !== pad))),
    attention_mask: responses.map((row) => row.map((id) => Number(id !== pad))),
  };
}

/** What the next generation sees: the tail of the context. Positions count from the start of the context, even if that is cut off. */
function rolling({ pad_id: pad, max_prompt_length: limit, ...input }: Input): unknown {
  const prompts = (input.input_ids ?? []).map((row) => present(row, pad));
  const rows = buffers([input], pad, prompts.length, prompts);
  const longest = Math.max(...rows.map((row) => row.length));
  // A batch of only padding keeps its width, because upstream slices with [-0:].
  const width = longest === 0 ? concatenatedWidth(input) : Math.min(limit, longest);
  const ids = rows.map((row) => {
    const tail = [...row.ids.subarray(Math.max(0, row.length - width))];
    return [...Array<number>(width - tail.length).fill(pad), ...tail];
  });
  return {
    input_ids: ids,
    attention_mask: ids.map((row) => row.map((id) => Number(id !== pad))),
    position_ids: rows.map((row) => Array.from({ length: width }, (_, i) => Math.max(0, row.length - width + i))),
  };
}

function concatenatedWidth({ input_ids, cur_responses, next_obs_ids }: Omit<Input, 'pad_id' | 'max_prompt_length'>): number {
  return [input_ids, cur_responses, next_obs_ids].reduce((sum, matrix) => sum + (matrix?.[0]?.length ?? 0), 0);
}

function buffers(steps: readonly Step[], pad: number, count: number, prompts: readonly (readonly number[])[] = []): TokenBuffer[] {
  return Array.from({ length: count }, (_, i) => {
    const buffer = new TokenBuffer();
    if (prompts[i]) buffer.appendGiven('prompt', Int32Array.from(prompts[i]));
    for (const { cur_responses, next_obs_ids } of steps) {
      const ids = Int32Array.from(present(cur_responses[i]!, pad));
      const textEnds = ids.map((_id, at) => at + 1);
      buffer.commit({ text: 'x'.repeat(ids.length), tail: '', ids, logProbs: new Float64Array(ids.length), textEnds }, ids.length, 0);
      if (next_obs_ids) buffer.appendGiven('observation', Int32Array.from(present(next_obs_ids[i]!, pad)));
    }
    return buffer;
  });
}

function present(row: readonly number[], pad: number): number[] {
  return row.filter((id) => id !== pad);
}

function padded(row: readonly number[], width: number, pad: number): number[] {
  return [...row, ...Array<number>(width - row.length).fill(pad)];
}
