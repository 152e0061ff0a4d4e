/** The linear layers that adapters can adapt, in the model's order. */
import { ADAPTED, type AdaptedName, type ModelConfig } from '../model/model-types.ts';

export interface AdaptedModule {
  /** `model.layers.0.self_attn.q_proj` */
  readonly path: string;
  readonly layer: number;
  readonly name: AdaptedName;
  readonly inputs: number;
  readonly outputs: number;
}

/** The modules named by `targets`, in every layer. @param targets default: all */
export function adaptedModules(config: ModelConfig, targets: readonly AdaptedName[] = ADAPTED): readonly AdaptedModule[] {
  const shapes = Object.entries(shapesOf(config)).filter(([name]) => (targets as readonly string[]).includes(name)) as [AdaptedName, Shape][];
  return Array.from({ length: config.layers }, (_, layer) =>
    shapes.map(([name, { block, inputs, outputs }]) => ({ path: `model.layers.${layer}.${block}.${name}`, layer, name, inputs, outputs })),
  ).flat();
}

interface Shape {
  readonly block: 'self_attn' | 'mlp';
  readonly inputs: number;
  readonly outputs: number;
}

function shapesOf({ hiddenSize, intermediateSize, heads, kvHeads, headDim }: ModelConfig): Readonly<Record<AdaptedName, Shape>> {
  return {
    q_proj: { block: 'self_attn', inputs: hiddenSize, outputs: heads * headDim },
    k_proj: { block: 'self_attn', inputs: hiddenSize, outputs: kvHeads * headDim },
    v_proj: { block: 'self_attn', inputs: hiddenSize, outputs: kvHeads * headDim },
    o_proj: { block: 'self_attn', inputs: heads * headDim, outputs: hiddenSize },
    gate_proj: { block: 'mlp', inputs: hiddenSize, outputs: intermediateSize },
    up_proj: { block: 'mlp', inputs: hiddenSize, outputs: intermediateSize },
    down_proj: { block: 'mlp', inputs: intermediateSize, outputs: hiddenSize },
  };
}
