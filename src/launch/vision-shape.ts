/** The vision tower of Qwen2.5-VL and Qwen3-VL, read from `vision_config`: its parameters, and the memory of a picture while it goes through. */

export interface TowerShape {
  readonly parameters: number;
  readonly hidden: number;
  /** Width of the MLP. */
  readonly feedForward: number;
  /** Patches that become one token of the language model. */
  readonly patchesPerToken: number;
  /** Outputs of inner layers that the language model also gets (Qwen3-VL). */
  readonly furtherOutputs: number;
}

/** Reads a positive whole number of `vision_config`. */
type Size = (key: string, otherwise?: number) => number;

/** Throws RangeError if a size is missing. `model` is the `model_type` of the whole model. */
export function towerShape(model: unknown, config: Readonly<Record<string, unknown>>, size: Size): TowerShape {
  const isQwen3 = model === 'qwen3_vl';
  const [hidden, feedForward, depth, out] = [size('hidden_size'), size('intermediate_size'), size('depth'), size('out_hidden_size')];
  const patchesPerToken = size('spatial_merge_size', 2) ** 2;
  const inner = config['deepstack_visual_indexes'];
  const furtherOutputs = Array.isArray(inner) ? inner.length : 0;
  const patch = size('in_channels', 3) * size('temporal_patch_size', 2) * size('patch_size') ** 2 * hidden;
  const attention = linear(hidden, 3 * hidden) + linear(hidden, hidden);
  const merged = hidden * patchesPerToken;
  const merger = linear(merged, merged) + linear(merged, out);
  const qwen3 = () => {
    const block = 4 * hidden + attention + linear(hidden, feedForward) + linear(feedForward, hidden);
    const places = size('num_position_embeddings') * hidden;
    return patch + hidden + places + depth * block + 2 * hidden + merger + furtherOutputs * (2 * merged + merger);
  };
  const qwen25 = () => patch + depth * (2 * hidden + attention + 2 * linear(hidden, feedForward) + linear(feedForward, hidden)) + hidden + merger;
  return { parameters: isQwen3 ? qwen3() : qwen25(), hidden, feedForward, patchesPerToken, furtherOutputs };
}

/** Bytes while a picture of so many tokens goes through the tower without a graph: per patch, queries, keys, values and the states around them, and the MLP. */
export function towerPassBytes({ hidden, feedForward, patchesPerToken }: TowerShape, tokens: number, bytesPerWeight: number): number {
  return tokens * patchesPerToken * bytesPerWeight * (STATES * hidden + MLP_WIDE * feedForward);
}

const STATES = 6;
const MLP_WIDE = 2;

/** With bias. */
function linear(input: number, output: number): number {
  return input * output + output;
}
