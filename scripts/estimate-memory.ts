/**
 * Estimates the GPU memory of a training run from the model's config.json and the training configuration:
 *
 *     node --conditions=source scripts/estimate-memory.ts qwen2.5-3b [--config run.toml] [--gpus 1x78,1x139,2x78] [--context 4596]
 *
 * The model is a Hugging Face directory, a config.json, or a known shape (qwen2.5-3b, qwen3-4b, qwen3-0.6b). `--gpus` lists number of cards x GiB per card, as
 * shown by nvidia-smi; vLLM and the worker share one card, but get one each of two. `--context` is the number of tokens per rollout that the server must
 * hold. Loads no model and needs no GPU; scripts/memory-estimate.ts has the arithmetic.
 */
import { readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { parse } from 'smol-toml';
import { withDefaults } from '../src/schemas/config-keys.ts';
import { trainingConfigSchema, type TrainingConfigWire } from '../src/schemas/training-config.ts';
import { presetNamed } from '../src/trainer/config/presets.ts';
import {
  activationBytesPerTokenAndLayer,
  adapterParameterCount,
  cacheBytesPerToken,
  concurrentRollouts,
  GIB,
  largestMicroBatch,
  type ModelShape,
  modelShape,
  parameterCount,
  serverFixedBytes,
  trainerMemory,
  type TrainerSettings,
} from './memory-estimate.ts';

const QWEN = { num_hidden_layers: 36, head_dim: 128, vocab_size: 151_936, tie_word_embeddings: true };
const QWEN3 = { ...QWEN, model_type: 'qwen3', num_key_value_heads: 8 };
/** From each model's config.json. */
const KNOWN: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  'qwen2.5-3b': { ...QWEN, model_type: 'qwen2', hidden_size: 2048, intermediate_size: 11_008, num_attention_heads: 16, num_key_value_heads: 2 },
  'qwen3-4b': { ...QWEN3, hidden_size: 2560, intermediate_size: 9728, num_attention_heads: 32 },
  'qwen3-0.6b': { ...QWEN3, hidden_size: 1024, intermediate_size: 3072, num_attention_heads: 16, num_hidden_layers: 28 },
};
/** Share of a card that both programs may use together; the rest is for the allocators' rounding. */
const USABLE = 0.9;
/** With fewer whole rollouts than this in the cache, a server would sample them one after another. */
const MIN_ROLLOUTS = 16;

interface Tables {
  readonly preset?: string;
  readonly lora?: Readonly<Record<string, unknown>>;
  readonly backend?: Readonly<Record<string, unknown>>;
}

const { values, positionals } = parseArgs({
  options: {
    config: { type: 'string' },
    gpus: { type: 'string', default: '1x78,1x139,2x78' },
    context: { type: 'string', default: '4596' },
  },
  allowPositionals: true,
});
const [model] = positionals;
if (model === undefined) fail(`Pass a model: a directory, a config.json, or one of ${Object.keys(KNOWN).join(', ')}.`);
const shape = readShape(model);
const { lora, backend } = readConfig(values.config);
const settings = { rank: lora.rank, targets: lora.targets, bytesPerWeight: backend.dtype === 'float32' ? 4 : 2 };
const maxTokens = backend.max_tokens;
const contextTokens = Number(values.context);

process.stdout.write(
  `${shape.name}: worker, LoRA rank ${lora.rank}, micro-batch of ${whole(maxTokens)} tokens, ${settings.bytesPerWeight} bytes per weight\n`,
);
process.stdout.write(aligned([['', 'GiB', 'GiB with checkpointing', 'how'], ...workerRows()]));
process.stdout.write(`\nvLLM, rollouts of ${whole(contextTokens)} tokens\n`);
process.stdout.write(aligned([['', '', ''], ...serverRows()]));
process.stdout.write('\nWhat fits\n');
process.stdout.write(
  aligned([['GPUs', 'checkpointing', 'largest micro-batch', 'then vLLM gets', 'whole rollouts at once'], ...values.gpus.split(',').flatMap(fitRows)]),
);

function workerRows(): string[][] {
  const full = trainerMemory(shape, { ...settings, maxTokens, checkpointing: false });
  const saved = trainerMemory(shape, { ...settings, maxTokens, checkpointing: true });
  const layer = activationBytesPerTokenAndLayer(shape, { ...settings, checkpointing: false });
  const how: Readonly<Record<keyof typeof full, string>> = {
    weights: `${whole(parameterCount(shape))} parameters x ${settings.bytesPerWeight} bytes`,
    adapter: `${whole(adapterParameterCount(shape, lora.rank, lora.targets))} parameters x 18 bytes: weight, gradient, two Adam moments, a copy`,
    activations: `${shape.layers} layers x ${whole(layer)} bytes x tokens; with checkpointing ${whole(settings.bytesPerWeight * shape.hidden)} x layers, plus one whole layer`,
    working: 'gradients of four MLP-wide tensors of one layer',
    head: 'three chunks of logits of 1 GiB',
    context: 'CUDA context and kernels',
    total: '',
  };
  return (Object.keys(how) as (keyof typeof full)[]).map((part) => [part, gib(full[part]), gib(saved[part]), how[part]]);
}

function serverRows(): string[][] {
  return [
    ['weights and fixed parts', `${gib(serverFixedBytes(shape))} GiB`, 'weights in half precision, plus 3 GiB'],
    [
      'cache per token',
      `${whole(cacheBytesPerToken(shape))} bytes`,
      `2 x ${shape.layers} layers x ${shape.keyValueHeads} heads x ${shape.headDim} x 2 bytes`,
    ],
    ['cache per rollout', `${gib(cacheBytesPerToken(shape) * contextTokens)} GiB`, ''],
  ];
}

function fitRows(gpus: string): string[][] {
  const [, count, memory] = /^(\d+)x(\d+(?:\.\d+)?)$/.exec(gpus.trim()) ?? fail(`--gpus must look like 1x78,2x139, got ${gpus}.`);
  const [cards, bytes] = [Number(count), Number(memory) * GIB * USABLE];
  const least = serverFixedBytes(shape) + MIN_ROLLOUTS * cacheBytesPerToken(shape) * contextTokens;
  return [false, true].map((checkpointing) => {
    const own: Omit<TrainerSettings, 'maxTokens'> = { ...settings, checkpointing };
    const tokens = largestMicroBatch(shape, own, cards > 1 ? bytes : bytes - least);
    const used = trainerMemory(shape, { ...own, maxTokens: Math.min(tokens, maxTokens) }).total;
    const server = cards > 1 ? bytes * (cards - 1) : bytes - used;
    const rest =
      tokens === 0 ? ['does not fit', '-', '-'] : [whole(tokens), `${gib(server)} GiB`, whole(concurrentRollouts(shape, server, contextTokens))];
    return [gpus.trim(), checkpointing ? 'on' : 'off', ...rest];
  });
}

function readShape(name: string): ModelShape {
  const known = KNOWN[name];
  if (known) return modelShape(name, known);
  const path = statSync(name, { throwIfNoEntry: false })?.isDirectory() ? join(name, 'config.json') : name;
  try {
    return modelShape(basename(name), JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>);
  } catch (error) {
    return fail(`${name} is not a model directory, a config.json or one of ${Object.keys(KNOWN).join(', ')}: ${(error as Error).message}`);
  }
}

/** The relevant tables of the file, merged over its preset and the defaults. */
function readConfig(path: string | undefined): Pick<TrainingConfigWire, 'lora' | 'backend'> {
  try {
    const { preset, lora: ownLora, backend: ownBackend } = (path === undefined ? {} : parse(readFileSync(path, 'utf8'))) as Tables;
    const under: Tables = preset === undefined ? {} : presetNamed(preset).table;
    const given = { lora: { ...under.lora, ...ownLora }, backend: { ...under.backend, ...ownBackend } };
    return withDefaults(trainingConfigSchema, given) as unknown as TrainingConfigWire;
  } catch (error) {
    return fail(`${path} (--config) is not a training configuration in TOML: ${(error as Error).message}`);
  }
}

function gib(bytes: number): string {
  return (bytes / GIB).toFixed(1);
}

function whole(value: number): string {
  return value.toLocaleString('en');
}

function aligned(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column]!))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

function fail(reason: string): never {
  process.stderr.write(`${reason}\n`);
  process.exit(2);
}
