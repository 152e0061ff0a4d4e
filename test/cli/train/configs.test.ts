import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseTrain } from './parse-train.ts';
import { planAblations } from '../../../src/sessions/training/plan-ablations.ts';
import { resolveTraining } from '../../../src/sessions/training/resolve-training.ts';
import { gpuNeeds } from '../../../src/sessions/training/plan-gpus.ts';
import { assumedCards } from '../../../src/doctor/check-gpus.ts';
import { fitGpus } from '../../../src/launch/gpu-plan.ts';
import { parseArguments } from '../../../environments/search-r1/arguments.ts';

const root = join(import.meta.dirname, '../../..');
const FILES = globSync('configs/train/*.toml', { cwd: root }).toSorted();

async function read(file: string) {
  const parsed = parseTrain([join(root, file)]);
  const options = { variables: {}, environmentFile: join(root, 'no such file') };
  const [ablation] = (await planAblations(parsed, options)) ?? [];
  return ablation?.runs[0]!.setup ?? resolveTraining(parsed, options);
}

/** As it was before the default changed; new files choose for themselves. */
const CONSTANT_GROUPS: Readonly<Record<string, string>> = {
  'nano-fact-world': 'drop',
  'qwen2.5-3b-nq': 'keep',
  'qwen3-4b-nq': 'drop',
  'qwen2.5-7b-8-gpus': 'drop',
  'qwen3-32b-8-gpus': 'drop',
  'reinforce-plus-plus': 'keep',
  rloo: 'keep',
  'two-learning-rates': 'drop',
};

describe('configs/train', () => {
  it('holds the nano run, published algorithms on the nano, and four for GPUs', () => {
    const names = ['nano-fact-world', 'qwen2.5-3b-nq', 'qwen3-4b-nq', 'qwen2.5-7b-8-gpus', 'qwen3-32b-8-gpus', 'reinforce-plus-plus', 'rloo'];
    expect(FILES).toEqual(expect.arrayContaining(names.map((name) => `configs/train/${name}.toml`)));
  });

  it.each(FILES)('%s resolves, and Search-R1 knows its arguments', async (file) => {
    const { wire } = await read(file);
    const { args, eval_args: evalArgs } = wire.environment;
    // The environment itself trains on the one split and holds out the other.
    expect(parseArguments({ ...args, ...evalArgs }).dataSplit).toBeNull();
  });

  it.each(FILES.filter((file) => /^base_url =/m.test(readFileSync(join(root, file), 'utf8'))))(
    '%s names server flags that fit its adapter and its staleness',
    async (file) => {
      const { wire } = await read(file);
      const text = readFileSync(join(root, file), 'utf8');
      const flag = (name: string) => Number(new RegExp(`--${name} (\\d+)`).exec(text)![1]);
      expect(flag('max-lora-rank')).toBe(wire.lora.rank);
      expect(flag('max-loras')).toBe(wire.rollouts.max_staleness + 2);
    },
  );

  it.each(FILES.filter((file) => file.endsWith('-8-gpus.toml')))('%s fits on eight GPUs of 80 GB, with a cache for its rollouts', async (file) => {
    const { config } = await read(file);
    const needs = gpuNeeds(config, { cards: assumedCards('78,78,78,78,78,78,78,78'), contextTokens: 4596, visible: undefined });
    if ('why' in needs) throw new Error(needs.why);
    const fit = fitGpus(needs);
    if (!('plan' in fit)) throw new Error(fit.problem);
    expect(new Set([...needs.workers, ...needs.servers.flat()]).size).toBe(8);
    // One cache is for both or all cards of a replica.
    expect(fit.plan.rollouts!.every((count) => count >= 64)).toBe(true);
    expect(fit.plan.maxTokens).toBe(16_384);
  });

  it.each(FILES)('%s says itself, or by its preset, what happens to constant groups', async (file) => {
    const { wire, origin } = await read(file);
    expect(origin('algorithm.constant_groups')).not.toBe('default');
    expect(wire.algorithm.constant_groups).toBe(CONSTANT_GROUPS[file.split('/').at(-1)!.replace('.toml', '')]);
  });

  it.each(FILES.filter((file) => /^base_url =/m.test(readFileSync(join(root, file), 'utf8'))))(
    '%s gives its server a share of an 80 GB GPU that leaves the worker enough',
    async (file) => {
      const { config } = await read(file);
      const share = Number(/--gpu-memory-utilization ([\d.]+)/.exec(readFileSync(join(root, file), 'utf8'))![1]);
      const gpu = { index: 0, uuid: 'GPU-0', name: 'H100', totalBytes: 79.6 * 2 ** 30, usedBytes: 0, driver: '580' };
      const launched = {
        ...config,
        policy: {
          ...config.policy,
          baseUrl: null,
          launch: { python: 'python3', replicas: 1, tensorParallelSize: 1, args: [], env: {}, sleep: false, readyTimeoutS: 9, maxRestarts: 0 },
        },
      };
      const needs = gpuNeeds(launched, { cards: [gpu], contextTokens: 4596, visible: undefined });
      if ('why' in needs) throw new Error(needs.why);
      const fit = fitGpus(needs);
      if (!('plan' in fit)) throw new Error(fit.problem);
      expect(fit.plan).toMatchObject({ checkpointing: true, maxTokens: config.backend.maxTokens });
      expect(share).toBeLessThanOrEqual(fit.plan.share!);
      expect(share).toBeGreaterThan(fit.plan.share! - 0.06);
    },
  );
});
