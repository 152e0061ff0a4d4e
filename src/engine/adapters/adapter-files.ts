/** The two files of an adapter as PEFT reads them, in memory. */
import { safetensorsHeader } from '../../files/safetensors.ts';
import type { AdapterTensors } from '../training/trainer-types.ts';
import { ADAPTER_CONFIG, ADAPTER_WEIGHTS, adapterTensorName } from './read-adapter.ts';
import type { DirectoryFile } from './write-directory.ts';

export interface AdapterContents {
  /** One pair of matrices per adapted layer. */
  readonly tensors: readonly AdapterTensors[];
  readonly rank: number;
  readonly alpha: number;
}

/** Writes float32. `baseName` is the base model's name in adapter_config.json. */
export function adapterFiles({ tensors, rank, alpha }: AdapterContents, baseName: string): readonly DirectoryFile[] {
  const targets = [...new Set(tensors.map(({ path }) => path.slice(path.lastIndexOf('.') + 1)))].toSorted();
  const config = JSON.stringify(peftConfig({ rank, alpha, baseName, targets }), null, 2);
  const matrices = tensors
    .flatMap(({ path, inputs, outputs, a, b }) => [
      { name: adapterTensorName(path, 'A'), shape: [rank, inputs], numbers: a },
      { name: adapterTensorName(path, 'B'), shape: [outputs, rank], numbers: b },
    ])
    // Sorted by code units, like the format's own writer.
    .toSorted((x, y) => (x.name < y.name ? -1 : 1));
  const bytes = matrices.map(({ numbers }) => new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength));
  return [
    { name: ADAPTER_CONFIG, parts: [new TextEncoder().encode(`${config}\n`)] },
    { name: ADAPTER_WEIGHTS, parts: [safetensorsHeader(matrices), ...bytes] },
  ];
}

/** Sorted by name. PEFT fills absent fields with its defaults, which may change, so every field that matters is written. */
function peftConfig(about: { readonly rank: number; readonly alpha: number; readonly baseName: string; readonly targets: readonly string[] }) {
  return {
    alpha_pattern: {},
    auto_mapping: null,
    base_model_name_or_path: about.baseName,
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
