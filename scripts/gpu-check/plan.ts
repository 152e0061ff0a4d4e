/**
 * Writes plan.json, what gpu-check compares a GPU with: the shapes that it builds, as config.json, and the memory that src/launch/memory-estimate.ts expects for each
 * micro-batch. With that table the check needs no Node.
 *
 *     node --conditions=vf-search-source scripts/gpu-check/plan.ts
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TrainerMemory, trainerMemory } from '../../src/launch/memory-estimate.ts';
import { modelShape, parameterCount, readModelConfig } from '../../src/launch/model-shape.ts';
import { trainingConfigSchema } from '../../src/schemas/training-config.ts';

interface PlannedShape {
  /** What transformers builds the model from. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly parameters: number;
  readonly tiny: boolean;
  readonly memory: readonly PlannedMemory[];
}

interface PlannedMemory {
  readonly device: 'cuda' | 'cpu';
  readonly tokens: number;
  readonly sequence: number;
  readonly checkpointing: boolean;
  readonly bytes: TrainerMemory;
}

const { rank, targets } = trainingConfigSchema.properties.lora.properties;
const ADAPTER = { rank: rank.default, targets: targets.default };
const TINY = {
  vocab_size: 2048,
  hidden_size: 64,
  intermediate_size: 192,
  num_hidden_layers: 3,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 16,
};
/** For a CPU: the smallest shapes that have every part of the real ones. */
const TINY_SHAPES = {
  'tiny-qwen3': { ...TINY, model_type: 'qwen3', tie_word_embeddings: true },
  'tiny-qwen2': { ...TINY, model_type: 'qwen2', tie_word_embeddings: false },
};
const SHAPES = ['Qwen3-0.6B', 'Qwen2.5-3B', 'Qwen3-4B', 'Qwen3-8B'];

/** The whole table. */
export function gpuCheckPlan(): object {
  const real = SHAPES.map((name) => [name.toLowerCase(), planned(name, hubConfig(readModelConfig(name)!), false)]);
  const tiny = Object.entries(TINY_SHAPES).map(([name, config]) => [name, planned(name, hubConfig(config), true)]);
  return { ...ADAPTER, shapes: Object.fromEntries([...tiny, ...real]) };
}

/** The config.json of a shape: its sizes, and what transformers needs in addition to build a model of it. */
export function hubConfig(sizes: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const architecture = sizes['model_type'] === 'qwen2' ? 'Qwen2ForCausalLM' : 'Qwen3ForCausalLM';
  return { architectures: [architecture], hidden_act: 'silu', rms_norm_eps: 1e-6, rope_theta: 1e6, max_position_embeddings: 131_072, ...sizes };
}

function planned(name: string, config: Readonly<Record<string, unknown>>, tiny: boolean): PlannedShape {
  const shape = modelShape(name, config);
  const [device, bytesPerWeight, budgets, sequence] = tiny ? (['cpu', 4, [512, 1024], 128] as const) : (['cuda', 2, [4096, 16_384], 2048] as const);
  const memory = [true, false].flatMap((checkpointing) =>
    budgets.map((tokens) => {
      const bytes = trainerMemory(shape, { ...ADAPTER, maxTokens: tokens, checkpointing, bytesPerWeight, device });
      return { device, tokens, sequence, checkpointing, bytes };
    }),
  );
  return { config, parameters: parameterCount(shape), tiny, memory };
}

/** As plan.json holds it. */
export function gpuCheckPlanText(): string {
  return `${JSON.stringify(gpuCheckPlan(), null, 2)}\n`;
}

if (process.argv[1] === import.meta.filename) writeFileSync(join(import.meta.dirname, 'plan.json'), gpuCheckPlanText());
