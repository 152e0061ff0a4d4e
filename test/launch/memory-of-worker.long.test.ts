/** @module-tag long */
import { spawn, spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseTrain } from '../cli/train/parse-train.ts';
import { resolveTraining } from '../../src/sessions/training/resolve-training.ts';
import { modelShape, readModelConfig } from '../../src/launch/model-shape.ts';
import { GIB, trainerMemory, type TrainerSettings } from '../../src/launch/memory-estimate.ts';
import { hubConfig } from '../../scripts/gpu-check/plan.ts';
import { torchPython } from '../trainer/gradients/torch/torch-python.ts';

const root = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'fake-cuda-'));
const library = join(folder, 'fake-cuda.so');
afterAll(() => rmSync(folder, { recursive: true }));

/** Builds the device for which the worker's modules run. Null with a reason where that is not possible. */
function whyNot(): string | null {
  if (torchPython.path === null) return torchPython.reason;
  if (process.platform !== 'linux') return 'LD_PRELOAD needs Linux';
  if (spawnSync('g++', ['--version']).error) return 'no g++';
  return null;
}
const reason = whyNot();
const skipReason = reason === null ? '' : ` (skipped: ${reason})`;

function buildDevice(): void {
  const where = 'import os, torch; print(os.path.dirname(torch.__file__))';
  const torch = spawnSync(torchPython.path!, ['-c', where], { encoding: 'utf8' }).stdout.trim();
  const source = join(import.meta.dirname, 'fake-cuda.cpp');
  const flags = ['-std=c++20', '-shared', '-fPIC', '-O0', `-I${torch}/include`, `-L${torch}/lib`, `-Wl,-rpath,${torch}/lib`];
  const { status, stderr } = spawnSync('g++', [...flags, source, '-o', library, '-ltorch_cpu', '-lc10'], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}

interface Case extends TrainerSettings {
  readonly model: string;
  readonly entropy: boolean;
}

/** The peak of each case, in bytes. */
async function measure(cases: readonly Case[]): Promise<readonly { readonly peak: number; readonly kernel: string }[]> {
  const child = spawn(torchPython.path!, [join(import.meta.dirname, 'memory-of-worker.py')], {
    env: { ...process.env, LD_PRELOAD: library, HF_HUB_OFFLINE: '1', PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(JSON.stringify(cases.map(onWire)));
  return JSON.parse(await text(child.stdout)) as { peak: number; kernel: string }[];
}

function onWire({ model, maxTokens: tokens, bytesPerWeight, device = 'cuda', ...rest }: Case): object {
  return {
    ...rest,
    config: hubConfig(readModelConfig(model)!),
    tokens,
    device,
    dtype: bytesPerWeight === 2 ? 'bfloat16' : 'float32',
    sequence: Math.min(4096, tokens / 4),
  };
}

async function configured(args: readonly string[], model: string, checkpointing: boolean): Promise<Case> {
  const parsed = parseTrain([...args, '-b', 'http://127.0.0.1:9/v1', '--set', 'policy.launch=null']);
  const { config } = await resolveTraining(parsed, { variables: {}, environmentFile: join(folder, 'none') });
  const { rank, targets } = config.lora;
  const isCpu = config.backend.device === 'cpu';
  return {
    model,
    rank,
    targets,
    checkpointing,
    maxTokens: isCpu ? 2048 : config.backend.maxTokens,
    bytesPerWeight: isCpu ? 4 : 2,
    device: isCpu ? 'cpu' : 'cuda',
    entropy: config.algorithm.entropyCoefficient > 0,
  };
}

/** Those of the embedded engine have no worker. */
const FILES = globSync('configs/train/*.toml', { cwd: root })
  .filter((file) => !/^(?:kind = "embedded"|preset = "laptop")$/m.test(readFileSync(join(root, file), 'utf8')))
  .toSorted();

// Skipped without a Python that has torch, for the reason in the title.
describe.skipIf(reason !== null)(`trainerMemory${skipReason}`, () => {
  beforeAll(buildDevice, 120_000);

  it.each(FILES)(
    'is within 10 %% of the peak of the worker’s own modules for %s, with checkpointing and without',
    async (file) => {
      const path = /^path = "(.*)"$/m.exec(readFileSync(join(root, file), 'utf8'))![1]!;
      const model = path.startsWith('/') ? path : join(root, path);
      const cases = await Promise.all([true, false].map((on) => configured([join(root, file), '-m', model], model, on)));
      expect(await farOff(cases)).toEqual([]);
    },
    300_000,
  );

  it('is within 10 % for the other presets with the models of the guide, and for small and large micro-batches', async () => {
    const tinker = await configured(['--preset', 'tinker', '-m', 'Qwen3-4B'], 'Qwen3-4B', true);
    const grpo = await configured(['--preset', 'search-r1-grpo-format', '-m', 'Qwen2.5-3B'], 'Qwen2.5-3B', true);
    const small = { ...grpo, model: 'Qwen3-0.6B', maxTokens: 2048, checkpointing: false };
    expect(await farOff([tinker, { ...grpo, maxTokens: 65_536 }, small, { ...small, targets: ['q_proj', 'v_proj'], entropy: false }])).toEqual([]);
  }, 300_000);
});

/** The cases whose estimate differs by more than a tenth from the peak, with both in GiB. */
async function farOff(cases: readonly Case[]): Promise<readonly object[]> {
  const measured = await measure(cases);
  return cases.flatMap((each, i) => {
    const { total, context } = trainerMemory(modelShape(basename(each.model), readModelConfig(each.model)!), each);
    const { peak, kernel } = measured[i]!;
    const [estimate, wanted] = [total - context, each.device === 'cpu' ? 'sdpa' : 'varlen'];
    return Math.abs(estimate / peak - 1) < 0.1 && kernel === wanted ? [] : [{ ...each, estimate: estimate / GIB, peak: peak / GIB, kernel }];
  });
}
