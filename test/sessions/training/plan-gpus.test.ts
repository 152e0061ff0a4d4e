import { describe, expect, it } from 'vitest';
import { planGpus } from '../../../src/sessions/training/plan-gpus.ts';
import { someConfig } from '../../trainer/some-config.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';
import { fakeNvidiaSmi } from '../../cli/train/fake-nvidia-smi.ts';

const signal = new AbortController().signal;
const LAUNCHED = { model: { path: '/data/models/Qwen3-4B' }, policy: { base_url: null, launch: {} } };

function machine(folder: TemporaryFolder, ...gibs: readonly number[]): Record<string, string> {
  fakeNvidiaSmi(
    folder.path,
    gibs.map((gib) => ({ gib })),
  );
  return { PATH: `${folder.path}:${process.env['PATH']}` };
}

describe('planGpus', () => {
  it('gives a launched vLLM the part of the card that the worker leaves, and shows both', async () => {
    using folder = new TemporaryFolder();
    const { config, gpuShare, lines } = await planGpus(someConfig(LAUNCHED), { contextTokens: 4596, variables: machine(folder, 80), signal });
    expect(config.backend).toMatchObject({ gradientCheckpointing: true, maxTokens: 16_384 });
    expect(gpuShare).toBeGreaterThan(0.6);
    expect(gpuShare).toBeLessThan(0.75);
    expect(lines[1]).toBe('  GPU 0, NVIDIA H100, 80.0');
    expect(lines[2]).toMatch(/^ {4}worker +\d+\.\d {2}weights 7\.5, .*micro-batches of 16,384 tokens, checkpointing on$/);
    expect(lines[3]).toContain(`--gpu-memory-utilization=${gpuShare}: 10.5 and a cache of 147,456 bytes per token`);
  });

  it('says by name that it does not plan a mixture of experts, and how large its weights are', async () => {
    using folder = new TemporaryFolder();
    const experts = someConfig(LAUNCHED, { model: { path: '/data/models/Qwen3-30B-A3B' } });
    const { config, gpuShare, lines } = await planGpus(experts, { contextTokens: 4596, variables: machine(folder, 80), signal });
    expect([config.backend.gradientCheckpointing, gpuShare]).toEqual([true, null]);
    expect(lines).toEqual([
      'GPU memory was not planned: Qwen3-30B-A3B is a mixture of 128 experts, whose activations the plan does not count; its weights alone take 56.9 GiB',
    ]);
  });

  it('puts the two on the cards that the configuration names', async () => {
    using folder = new TemporaryFolder();
    const variables = machine(folder, 80, 24);
    const apart = someConfig(LAUNCHED, { policy: { launch: { env: { CUDA_VISIBLE_DEVICES: '1' } } } });
    const { config, gpuShare, lines } = await planGpus(apart, { contextTokens: 4596, variables, signal });
    expect([config.backend.gradientCheckpointing, gpuShare]).toEqual([true, 0.9]);
    expect(lines.filter((line) => /GPU \d/.test(line))).toEqual(['  GPU 0, NVIDIA H100, 80.0', '  GPU 1, NVIDIA H100, 24.0']);
    const swapped = await planGpus(someConfig(LAUNCHED, { backend: { device: 'cuda:1' } }), { contextTokens: 4596, variables, signal });
    expect(swapped.lines.join('\n')).toMatch(/GPU 1, NVIDIA H100, 24\.0\n {4}worker/);
  });

  it('plans a copy of the base for each of several workers, which divide a micro-batch', async () => {
    using folder = new TemporaryFolder();
    const variables = machine(folder, 80, 24, 24);
    const plan = (backend: Record<string, unknown>) => planGpus(someConfig(LAUNCHED, { backend }), { contextTokens: 4596, variables, signal });
    const two = await plan({ devices: ['cuda:1', 'cuda:2'], sharding: 'none' });
    expect(two.lines.filter((line) => /worker/.test(line))).toHaveLength(2);
    expect(two.config.backend.maxTokens).toBe(16_384);
    expect(two.lines.join('\n')).toContain('micro-batches of 8,192 tokens');
    expect((await plan({ devices: ['cpu', 'cpu'] })).lines).toEqual([]);
    const divided = await plan({ devices: ['cuda:1', 'cuda:2'], sharding: 'full' });
    const weights = (lines: readonly string[]) => Number(/weights (\d+\.\d)/.exec(lines.join('\n'))![1]);
    expect(weights(two.lines)).toBe(7.5);
    // Half of the layers' 6.8 GiB, two whole layers, the embedding.
    expect(weights(divided.lines)).toBe(4.5);
    expect(divided.lines.join('\n')).toContain('(a part of every layer, divided by 2, and two whole layers at a time)');
  });

  it('gives each replica of vLLM cards of its own, and counts the rollouts of each', async () => {
    using folder = new TemporaryFolder();
    const variables = machine(folder, 80, 48, 48, 48, 48);
    const plan = (launch: Record<string, unknown>) =>
      planGpus(someConfig(LAUNCHED, { policy: { launch: { env: { CUDA_VISIBLE_DEVICES: '1,2,3,4' }, ...launch } } }), {
        contextTokens: 4596,
        variables,
        signal,
      });
    const serverLines = (lines: readonly string[]) => lines.filter((line) => line.includes('vLLM'));
    const rollouts = (lines: readonly string[]) => Number(/(\d+) rollouts of/.exec(serverLines(lines)[0]!)![1]);
    const [one, two, parallel] = [await plan({}), await plan({ replicas: 2 }), await plan({ replicas: 2, tensor_parallel_size: 2 })];
    expect([one, two, parallel].map(({ lines }) => serverLines(lines).length)).toEqual([1, 2, 4]);
    expect(rollouts(two.lines)).toBe(rollouts(one.lines));
    expect(rollouts(parallel.lines)).toBeGreaterThan(2 * rollouts(two.lines));
    expect((await plan({ replicas: 5 })).lines[0]).toContain('[policy.launch] needs 5 GPUs, but only 4 are visible to vLLM');
  });

  it('names a further GPU as this process does', async () => {
    using folder = new TemporaryFolder();
    const variables = { ...machine(folder, 26, 26, 26, 26), CUDA_VISIBLE_DEVICES: '2,3' };
    await expect(planGpus(someConfig(LAUNCHED), { contextTokens: 4596, variables, signal })).rejects.toThrow(
      /give the worker its own GPU: backend\.device = "cuda:1"\.$/,
    );
  });

  it('says that a part of a GPU is not planned', async () => {
    using folder = new TemporaryFolder();
    const variables = { ...machine(folder, 80), CUDA_VISIBLE_DEVICES: 'MIG-1234' };
    expect((await planGpus(someConfig(LAUNCHED), { contextTokens: 4596, variables, signal })).lines[0]).toContain('names a part of a GPU (MIG)');
  });

  it('refuses in one line what cannot fit, before anything is loaded', async () => {
    using folder = new TemporaryFolder();
    const variables = machine(folder, 24);
    await expect(planGpus(someConfig(LAUNCHED), { contextTokens: 4596, variables, signal })).rejects.toThrow(
      /^Qwen3-4B does not fit: the worker needs .* there is GPU 0 of 24\.0 GiB, with a tenth kept free\. To make it fit, .+\.$/,
    );
  });

  it('only warns where the user chose checkpointing, micro-batch and share', async () => {
    using folder = new TemporaryFolder();
    const chosen = someConfig(LAUNCHED, {
      backend: { gradient_checkpointing: true, max_tokens: 5000 },
      policy: { launch: { args: ['--gpu-memory-utilization=0.5'] } },
    });
    const { config, lines } = await planGpus(chosen, { contextTokens: 4596, variables: machine(folder, 24), signal });
    expect(config.backend).toMatchObject({ gradientCheckpointing: true, maxTokens: 5000 });
    expect(lines[0]).toMatch(/^By estimate, Qwen3-4B does not fit/);
  });

  it('leaves checkpointing off on a CPU, and on with a GPU whose memory it does not know', async () => {
    using folder = new TemporaryFolder();
    const plan = (table: Record<string, unknown>, variables: Record<string, string>) =>
      planGpus(someConfig(LAUNCHED, table), { contextTokens: null, variables, signal });
    const none = { PATH: '/nowhere' };
    expect((await plan({ backend: { device: 'cpu' } }, none)).config.backend.gradientCheckpointing).toBe(false);
    expect((await plan({}, none)).config.backend.gradientCheckpointing).toBe(false);
    const hidden = await plan({ backend: { device: 'cuda' } }, none);
    expect(hidden.config.backend.gradientCheckpointing).toBe(true);
    expect(hidden.lines).toEqual([expect.stringContaining('nvidia-smi lists no GPU')]);
    const other = await plan({ model: { path: 'somebody/else' } }, machine(folder, 80));
    expect(other.config.backend.gradientCheckpointing).toBe(true);
    expect(other.lines[0]).toContain('the shape of somebody/else is unknown');
    expect((await plan({ backend: { gradient_checkpointing: false, device: 'cuda' } }, none)).config.backend.gradientCheckpointing).toBe(false);
  });
});
