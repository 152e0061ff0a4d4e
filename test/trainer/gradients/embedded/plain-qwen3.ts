/** A dense Qwen3 decoder with a LoRA adapter in float64, one sequence at a time, without a line of the engine. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Matrix, type Tape } from './tape.ts';

const PREFIX = 'base_model.model.';

interface Config {
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim: number;
  readonly rms_norm_eps: number;
  readonly rope_theta: number;
  readonly tie_word_embeddings: boolean;
}

/** Float32 tensors of a safetensors file by name, in float64. */
function readMatrices(path: string, isFrozen: boolean): Map<string, Matrix> {
  const bytes = readFileSync(path);
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, start)) as Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>;
  const matrices = new Map<string, Matrix>();
  for (const [name, { dtype, shape, data_offsets: range }] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    if (dtype !== 'F32') throw new Error(`Expected float32 in ${name}, got ${dtype}`);
    const data = new Float32Array(new Uint8Array(bytes.subarray(start + range[0], start + range[1])).buffer);
    const [rows, columns] = shape.length === 2 ? (shape as [number, number]) : [1, shape[0]!];
    matrices.set(name, new Matrix(rows, columns, data, isFrozen));
  }
  return matrices;
}

/** y += scale · B A x for every layer with a `<path>.lora_A.weight`. */
export interface PlainAdapter {
  /** By PEFT's names. */
  readonly leaves: ReadonlyMap<string, Matrix>;
  readonly scale: number;
}

export function readPlainAdapter(directory: string): PlainAdapter {
  const config = JSON.parse(readFileSync(join(directory, 'adapter_config.json'), 'utf8')) as { r: number; lora_alpha: number };
  return { leaves: readMatrices(join(directory, 'adapter_model.safetensors'), false), scale: config.lora_alpha / config.r };
}

export class PlainQwen3 {
  readonly #config: Config;
  readonly #weights: ReadonlyMap<string, Matrix>;

  constructor(directory: string) {
    this.#config = JSON.parse(readFileSync(join(directory, 'config.json'), 'utf8')) as Config;
    this.#weights = readMatrices(join(directory, 'model.safetensors'), true);
  }

  /** Log-probs of all tokens after each of `places` [places, V]. */
  logProbs(tape: Tape, ids: readonly number[], places: readonly number[], temperature: number, adapter: PlainAdapter | null): Matrix {
    const { num_hidden_layers: layers, rms_norm_eps: epsilon } = this.#config;
    let x = tape.rows(this.#weight('model.embed_tokens'), ids);
    for (let layer = 0; layer < layers; layer++) {
      const path = `model.layers.${layer}`;
      const linear = (name: string, input: Matrix) => this.#linear(tape, `${path}.${name}`, input, adapter);
      const normalise = (name: string, input: Matrix) => tape.normalise(input, this.#weight(`${path}.${name}`).data, epsilon);
      x = tape.add(x, this.#attend(tape, normalise('input_layernorm', x), linear, normalise));
      const inner = normalise('post_attention_layernorm', x);
      const gated = tape.multiply(tape.silu(linear('mlp.gate_proj', inner)), linear('mlp.up_proj', inner));
      x = tape.add(x, linear('mlp.down_proj', gated));
    }
    const last = tape.normalise(tape.rows(x, places), this.#weight('model.norm').data, epsilon);
    const logits = tape.linear(last, this.#weight(this.#config.tie_word_embeddings ? 'model.embed_tokens' : 'lm_head'));
    return tape.logSoftmax(tape.scale(logits, 1 / temperature));
  }

  #attend(tape: Tape, x: Matrix, linear: (name: string, x: Matrix) => Matrix, normalise: (name: string, x: Matrix) => Matrix): Matrix {
    const { num_attention_heads: heads, num_key_value_heads: kvHeads, head_dim: size, rope_theta: theta } = this.#config;
    const q = tape.rotate(normalise('self_attn.q_norm', linear('self_attn.q_proj', x)), size, theta);
    const k = tape.rotate(normalise('self_attn.k_norm', linear('self_attn.k_proj', x)), size, theta);
    return linear('self_attn.o_proj', tape.attention(q, k, linear('self_attn.v_proj', x), { heads, kvHeads, size }));
  }

  #linear(tape: Tape, path: string, x: Matrix, adapter: PlainAdapter | null): Matrix {
    const y = tape.linear(x, this.#weight(path));
    const [a, b] = ['A', 'B'].map((name) => adapter?.leaves.get(`${PREFIX}${path}.lora_${name}.weight`));
    return a && b ? tape.add(y, tape.scale(tape.linear(tape.linear(x, a), b), adapter!.scale)) : y;
  }

  #weight(path: string): Matrix {
    const weight = this.#weights.get(`${path}.weight`);
    if (!weight) throw new Error(`Expected ${path}.weight in the model, it has none`);
    return weight;
  }
}
