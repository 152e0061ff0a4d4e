/** Writes an adapter as a PEFT directory for peft, vLLM and the torch worker. */
import { safetensorsHeader } from '../../files/safetensors.ts';
import { baseName } from './base-name.ts';
import type { AdapterTensors } from '../training/trainer-types.ts';
import { writeDirectory, type WrittenFile } from './write-directory.ts';
import { ADAPTER_CONFIG, ADAPTER_WEIGHTS, adapterTensorName } from './read-adapter.ts';

export interface WriteAdapterOptions {
  /** One pair of matrices per adapted layer. */
  readonly tensors: readonly AdapterTensors[];
  readonly rank: number;
  readonly alpha: number;
  /** The base model's directory or hub id. `adapter_config.json` has its `baseName`. */
  readonly baseModel: string;
}

/** Writes float32. `directory` must not exist; it is complete and durable when this resolves, and absent when it rejects. Rejects like writeDirectory. */
export async function writeAdapter(directory: string, { tensors, rank, alpha, baseModel }: WriteAdapterOptions): Promise<readonly WrittenFile[]> {
  const targets = [...new Set(tensors.map(({ path }) => path.slice(path.lastIndexOf('.') + 1)))].toSorted();
  const config = JSON.stringify(peftConfig({ rank, alpha, baseModel, targets }), null, 2);
  const matrices = tensors
    .flatMap(({ path, inputs, outputs, a, b }) => [
      { name: adapterTensorName(path, 'A'), shape: [rank, inputs], numbers: a },
      { name: adapterTensorName(path, 'B'), shape: [outputs, rank], numbers: b },
    ])
    // Sorted by code units, like the format's own writer.
    .toSorted((x, y) => (x.name < y.name ? -1 : 1));
  const bytes = matrices.map(({ numbers }) => Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength));
  return await writeDirectory(directory, [
    { name: ADAPTER_CONFIG, parts: [Buffer.from(`${config}\n`)] },
    { name: ADAPTER_WEIGHTS, parts: [safetensorsHeader(matrices), ...bytes] },
  ]);
}

/** Sorted by name. PEFT fills absent fields with its defaults, which may change, so every field that matters is written. */
function peftConfig(about: { readonly rank: number; readonly alpha: number; readonly baseModel: string; readonly targets: readonly string[] }) {
  return {
    alpha_pattern: {},
    auto_mapping: null,
    base_model_name_or_path: baseName(about.baseModel),
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    layers_pattern: null,
    layers_to_transform: null,
    lora_alpha: about.alpha,
    lora_dropout: 0,
    modules_to_save: null,
    peft_type: 'LORA',
    r: about.rank,
    rank_pattern: {},
    revision: null,
    target_modules: about.targets,
    task_type: 'CAUSAL_LM',
    use_dora: false,
    use_rslora: false,
  };
}
