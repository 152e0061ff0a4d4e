/** Adapters that PEFT configured (test/golden/producers/peft_adapters.py): each computes what PEFT's own model computes, or is refused by the name of what it computes more. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { initialAdapterFinding } from '../../../src/doctor/check-model.ts';
import { Engine } from '../../../src/engine/library/engine.ts';
import type { TrainingConfig } from '../../../src/schemas/training-config.ts';
import { checkAdapter } from '../../../src/trainer/publisher/check-adapter.ts';
import { EmbeddedBackend } from '../../../src/trainer/gradients/embedded/embedded-backend.ts';
import { TorchBackend } from '../../../src/trainer/gradients/torch/torch-backend.ts';
import { manifestOf, NANO_ADAPTER, safetensorsFile, temporaryFolder, tensor } from '../../trainer/publisher/adapter-files.ts';
import { openNano as openTorch } from '../../trainer/gradients/torch/nano-backend.ts';
import { skipReason, torchPython } from '../../trainer/gradients/torch/torch-python.ts';
import { hashNumbers } from '../compute/hash-numbers.ts';

interface Case {
  readonly config: Readonly<Record<string, unknown>> & { readonly r: number; readonly lora_alpha: number };
  readonly tensors: readonly (readonly [name: string, layers: readonly number[] | null, shape: readonly number[]])[];
  readonly log_probs: readonly number[];
  readonly plain: number | null;
}

interface Golden {
  readonly ids: readonly number[];
  readonly cases: Readonly<Record<string, Case>>;
}

const NANO = join(import.meta.dirname, '../../../models/nano-base');
const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../../golden/engine/peft.json'), 'utf8')) as Golden;
const { ids } = golden;
const plain = golden.cases['plain']!;
// PEFT makes this one only where bitsandbytes is installed.
const cases: Golden['cases'] = {
  ...golden.cases,
  LoftQ: { ...plain, config: { ...plain.config, init_lora_weights: 'loftq', loftq_config: { loftq_bits: 4 } } },
};
const { signal } = new AbortController();
const folder = temporaryFolder();
let engine: Engine;
beforeAll(async () => {
  engine = await Engine.open({ model: NANO, threads: 1 });
});
afterAll(async () => {
  await engine.close();
  folder.remove();
});

/** The adapter's folder, as PEFT saved it but for the numbers. */
function write(name: string): string {
  const directory = join(folder.path, name.replace(/\W/g, '-'));
  mkdirSync(directory, { recursive: true });
  const { config, tensors } = cases[name]!;
  const all = tensors.flatMap(([pattern, layers, shape]) =>
    (layers ?? [0]).map((layer) => {
      const key = pattern.replace('{}', `${layer}`);
      const size = { lora_A: 0.2, lora_B: 0.05 }[/\.(lora_[AB])\.weight/.exec(key)?.[1] ?? ''] ?? 0;
      const numbers = hashNumbers(
        key,
        shape.reduce((product, side) => product * side, 1),
      );
      return [
        key,
        tensor(
          shape,
          Float32Array.from(numbers, (x) => x * size),
        ),
      ] as const;
    }),
  );
  writeFileSync(join(directory, 'adapter_config.json'), JSON.stringify(config));
  writeFileSync(join(directory, 'adapter_model.safetensors'), safetensorsFile(new Map(all)));
  return directory;
}

async function wordsOf(started: Promise<unknown>): Promise<string> {
  return started.then(
    () => 'accepted',
    (error: unknown) => (error as Error).message,
  );
}

/** [lora] with which a training would start from it. */
function loraOf(name: string) {
  const { config, tensors } = cases[name]!;
  const { r: rank, lora_alpha: alpha, use_rslora: isStabilised } = config;
  const paths = tensors.flatMap(([key]) => /\.(\w+_proj)\.lora_A/.exec(key)?.[1] ?? []);
  return { rank, alpha: isStabilised === true ? alpha * Math.sqrt(rank) : alpha, targets: [...new Set(paths)].toSorted() };
}

/** What starts a training says: both backends, of which torch starts no Python, and the doctor. */
async function starts(name: string, directory: string): Promise<readonly string[]> {
  const adapter = { ...loraOf(name), seed: 0, initial: directory };
  const torch = { dtype: 'auto', devices: ['cpu'], gradientCheckpointing: false, threads: 1, timeoutMs: 1000, logPath: null, signal } as const;
  return [
    await wordsOf(EmbeddedBackend.start({ modelPath: NANO, adapter, threads: 1, signal }).then((backend) => backend.close())),
    await wordsOf(TorchBackend.start({ ...torch, python: join(folder.path, 'no-python'), modelPath: NANO, adapter })),
    (await initialAdapterFinding({ model: { path: NANO, initialAdapter: directory }, lora: loraOf(name) as unknown as TrainingConfig['lora'] }, {}))!
      .text,
  ];
}

/** The field by whose name an adapter is refused. */
const REFUSED: Readonly<Record<string, string>> = {
  PiSSA: 'init_lora_weights',
  'PiSSA by fast SVD': 'init_lora_weights',
  OLoRA: 'init_lora_weights',
  CorDA: 'init_lora_weights',
  LoftQ: 'init_lora_weights',
  'EVA with ranks of its own': 'rank_pattern',
  DoRA: 'use_dora',
  aLoRA: 'alora_invocation_tokens',
  biases: 'bias',
  'all biases': 'bias',
  lora_bias: 'lora_bias',
  'head saved': 'modules_to_save',
  'norms saved': 'modules_to_save',
  rank_pattern: 'rank_pattern',
  alpha_pattern: 'alpha_pattern',
  'trained tokens': 'trainable_token_indices',
};
/** Refused by the names of the layers that this engine does not adapt. */
const OTHER_LAYERS: readonly string[] = ['embedding', 'head'];
/** The function is served; training starts from adapters of every layer only. */
const PARTIAL: readonly string[] = ['two layers', 'one layer', 'one layer excluded', 'pattern of one layer'];

describe('adapters of PEFT', () => {
  const names = Object.keys(cases);
  const refused = names.filter((name) => name in REFUSED);
  const served = names.filter((name) => !refused.includes(name) && !OTHER_LAYERS.includes(name));

  it.each(served)("serves %s with the log-probs of PEFT's own model", async (name) => {
    const adapter = await engine.loadAdapter(write(name));
    const found = await engine.logProbs(ids, { adapter });
    adapter.unload();
    const differences = cases[name]!.log_probs.map((expected, i) => Math.abs(expected - found[i]!));
    expect(Math.max(...differences)).toBeLessThan(5e-5);
  });

  it.each(served.filter((name) => !PARTIAL.includes(name)))('starts a training from %s in both backends', async (name) => {
    const [embedded, torch, doctor] = await starts(name, write(name));
    expect(embedded).toBe('accepted');
    // The adapter is checked before Python is looked for.
    expect(torch).toMatch(/no-python/);
    expect(doctor).toMatch(/, rank \d/);
  });

  it.skipIf(torchPython.path === null).each(['rsLoRA', 'EVA', 'every layer', 'pattern'])(
    `trains from %s with torch at the log-probs of PEFT's own model${skipReason}`,
    { timeout: 240_000 },
    async (name) => {
      const backend = await openTorch({ adapter: { ...loraOf(name), initial: write(name) }, options: { modelPath: NANO } });
      const batch = {
        ids: Int32Array.from(ids),
        offsets: Int32Array.of(0, ids.length),
        targets: Int32Array.from(ids.keys()).slice(1),
        temperature: 1,
      };
      const { logProbs } = await backend.forward(batch, { retain: false, adapter: 'on', signal });
      await backend.close();
      expect(Math.max(...cases[name]!.log_probs.map((expected, i) => Math.abs(expected - logProbs[i]!)))).toBeLessThan(5e-5);
    },
  );

  it.each(PARTIAL)('starts no training from %s, in the same words everywhere', async (name) => {
    const said = await starts(name, write(name));
    expect(new Set(said).size).toBe(1);
    expect(said[0]).toMatch(/adapts some layers only \((layers_to_transform|exclude_modules|target_modules)\), but this trainer adapts every layer/);
  });

  it.each(refused)('refuses %s by its field, in the same words in the engine, both backends, the doctor and the publisher', async (name) => {
    const directory = write(name);
    const path = join(directory, 'adapter_config.json');
    const manifest = { ...manifestOf(directory), rank: NANO_ADAPTER.rank, alpha: NANO_ADAPTER.alpha };
    const said = [
      await wordsOf(engine.loadAdapter(directory)),
      ...(await starts(name, directory)),
      await wordsOf(checkAdapter(manifest, NANO_ADAPTER, signal)),
    ];
    expect(said[0]).toMatch(new RegExp(`^${REFUSED[name]!} in ${path} must be .* or absent, got `));
    expect(new Set(said)).toEqual(new Set([said[0]]));
  });

  it.each(OTHER_LAYERS)('refuses %s by the layer', async (name) => {
    expect(await wordsOf(engine.loadAdapter(write(name)))).toMatch(
      /contains tensors that are not linear layers of this model: .*(embed_tokens|lm_head)/,
    );
  });
});
