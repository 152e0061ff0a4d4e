/** A PEFT directory of random numbers over the nano base, written without the engine. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Random } from '../../../../src/core/random.ts';

export const NANO_BASE = join(import.meta.dirname, '../../../models/nano-base');

/** [inputs, outputs] of the linear layers of each of the four layers. */
const LAYERS = 4;
const SHAPES: Readonly<Record<string, readonly [number, number]>> = {
  'self_attn.q_proj': [128, 128],
  'self_attn.k_proj': [128, 64],
  'self_attn.v_proj': [128, 64],
  'self_attn.o_proj': [128, 128],
  'mlp.gate_proj': [128, 384],
  'mlp.up_proj': [128, 384],
  'mlp.down_proj': [384, 128],
};
export const ALL_TARGETS = Object.keys(SHAPES).map((name) => name.split('.')[1]!);

export interface RandomAdapter {
  readonly directory: string;
  readonly rank: number;
  readonly alpha: number;
  readonly seed: number;
  /** @default all */
  readonly targets?: readonly string[];
}

/** A of the size of a fresh adapter's, B of that of a trained one. */
export function writeRandomAdapter({ directory, rank, alpha, seed, targets = ALL_TARGETS }: RandomAdapter): string {
  const random = Random.fromSeed(seed);
  const header: Record<string, object> = {};
  const chunks: Buffer[] = [];
  let end = 0;
  const add = (name: string, shape: readonly [number, number], bound: number) => {
    const values = Float32Array.from({ length: shape[0] * shape[1] }, () => (2 * random.float() - 1) * bound);
    header[name] = { dtype: 'F32', shape, data_offsets: [end, end + values.byteLength] };
    chunks.push(Buffer.from(values.buffer));
    end += values.byteLength;
  };
  for (let layer = 0; layer < LAYERS; layer++) {
    for (const [name, [inputs, outputs]] of Object.entries(SHAPES)) {
      if (!targets.includes(name.split('.')[1]!)) continue;
      const path = `base_model.model.model.layers.${layer}.${name}`;
      add(`${path}.lora_A.weight`, [rank, inputs], 1 / Math.sqrt(inputs));
      add(`${path}.lora_B.weight`, [outputs, rank], 0.02);
    }
  }
  const json = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(json.length));
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'adapter_model.safetensors'), Buffer.concat([size, json, ...chunks]));
  const config = { peft_type: 'LORA', task_type: 'CAUSAL_LM', r: rank, lora_alpha: alpha, bias: 'none', base_model_name_or_path: NANO_BASE };
  writeFileSync(join(directory, 'adapter_config.json'), JSON.stringify({ ...config, target_modules: targets.toSorted() }));
  return directory;
}
