import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { flagValue, maxLoraRank, vllmCommand, type VllmHost, type VllmNeeds } from '../../src/launch/vllm-flags.ts';

const needs: VllmNeeds = {
  modelPath: 'models/nano',
  servedName: 'nano',
  loraRank: 16,
  maxStaleness: 0,
  temperature: 1,
  maxModelLen: null,
  gpuShare: null,
  sleeps: false,
  port: 4321,
  apiKey: 'sk-0123456789abcdef',
  args: [],
  env: {},
};
const gpu: VllmHost = { isCpuBuild: false, isLocalModel: false, cores: 16, baseEnv: {} };
const cpu: VllmHost = { isCpuBuild: true, isLocalModel: true, cores: 2, baseEnv: {} };
const args = (changes: Partial<VllmNeeds>, host = gpu) => vllmCommand({ ...needs, ...changes }, host).args;
const env = (changes: Partial<VllmNeeds>, host = gpu) => vllmCommand({ ...needs, ...changes }, host).env;

describe('vllmCommand', () => {
  it('gives a policy that must see images the route that takes them, and no memory for videos', () => {
    expect(args({ showsImages: true }).slice(-4, -2)).toEqual(['--enable-scale-out', '--limit-mm-per-prompt={"image": 32, "video": 0}']);
    // A user's own limit comes last and counts.
    expect(flagValue(args({ showsImages: true, args: ['--limit-mm-per-prompt', '{"image": 4}'] }), '--limit-mm-per-prompt')).toBe('{"image": 4}');
    expect(args({}).join(' ')).not.toMatch(/scale-out|limit-mm/);
  });

  it('gives a server whose weights change during a generation the routes for it', () => {
    expect(args({ changesInFlight: true })).toContain('--enable-scale-out');
    expect(args({ changesInFlight: true, showsImages: true }).filter((arg) => arg === '--enable-scale-out')).toHaveLength(1);
    expect(env({ changesInFlight: true })).toMatchObject({ VLLM_SERVER_DEV_MODE: '1' });
  });

  it('serves one model on loopback with room for the versions of a synchronous run', () => {
    expect(args({})).toEqual([
      '-m',
      'vllm.entrypoints.openai.api_server',
      '--model=models/nano',
      '--served-model-name=nano',
      '--host=127.0.0.1',
      '--port=4321',
      '--enable-lora',
      '--max-lora-rank=16',
      '--max-loras=2',
      '--max-cpu-loras=4',
      '--generation-config=vllm',
      '--enable-prompt-tokens-details',
      '--disable-uvicorn-access-log',
    ]);
    expect(env({})).toEqual({ VLLM_NO_USAGE_STATS: '1', VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1', VLLM_API_KEY: needs.apiKey });
  });

  it('makes room for every version that a rollout may still use', () => {
    expect(args({ maxStaleness: 1 })).toEqual(expect.arrayContaining(['--max-loras=3', '--max-cpu-loras=6']));
  });

  it('asks for log-probs at the temperature of sampling', () => {
    expect(args({ temperature: 0.8 })).toContain('--logprobs-mode=processed_logprobs');
  });

  it('takes the window from the environment when there is one', () => {
    expect(args({ maxModelLen: 4096 })).toContain('--max-model-len=4096');
  });

  it('gives vLLM its share of the GPU, unless the user names one; the CPU build has no such share', () => {
    expect(args({ gpuShare: 0.65 })).toContain('--gpu-memory-utilization=0.65');
    expect(args({ gpuShare: 0.65, args: ['--gpu-memory-utilization=0.3'] }).at(-1)).toBe('--gpu-memory-utilization=0.3');
    expect(args({ gpuShare: 0.65 }, cpu).join(' ')).not.toContain('utilization');
  });

  it('lets a server sleep only where the run says so', () => {
    expect(args({ sleeps: true })).toContain('--enable-sleep-mode');
    expect(env({ sleeps: true, env: { VLLM_SERVER_DEV_MODE: '0' } })).toMatchObject({ VLLM_SERVER_DEV_MODE: '1' });
    expect(args({})).not.toContain('--enable-sleep-mode');
    expect(env({})).not.toHaveProperty('VLLM_SERVER_DEV_MODE');
  });

  it('serves a CPU build in float32, uncompiled, with half of the cores', () => {
    expect(args({}, cpu)).toEqual(expect.arrayContaining(['--dtype=float32', '--enforce-eager']));
    expect(env({}, cpu)).toMatchObject({ VLLM_CPU_KVCACHE_SPACE: '1', OMP_NUM_THREADS: '1', HF_HUB_OFFLINE: '1' });
    expect(env({}, { ...cpu, cores: 9 })).toMatchObject({ OMP_NUM_THREADS: '4' });
  });

  it('gives a server its own GPUs, whatever the environment lists, and divides the model between them', () => {
    const own = { devices: ['2', '3'], tensorParallelSize: 2, env: { CUDA_VISIBLE_DEVICES: '0,1,2,3' } };
    expect(args(own)).toContain('--tensor-parallel-size=2');
    expect(env(own)['CUDA_VISIBLE_DEVICES']).toBe('2,3');
    expect(args({})).not.toContain('--tensor-parallel-size=1');
    expect(env({}, { ...gpu, baseEnv: { CUDA_VISIBLE_DEVICES: '5' } })['CUDA_VISIBLE_DEVICES']).toBe('5');
  });

  it('divides the cores between the servers of a CPU build, and leaves the choice of cores to the system', () => {
    expect(env({ replicas: 2 }, { ...cpu, cores: 16 })).toMatchObject({ OMP_NUM_THREADS: '4', VLLM_CPU_OMP_THREADS_BIND: 'nobind' });
    expect(env({ replicas: 2 }, cpu)).toMatchObject({ OMP_NUM_THREADS: '1' });
    expect(env({}, cpu)).not.toHaveProperty('VLLM_CPU_OMP_THREADS_BIND');
    expect(env({ replicas: 2 })).not.toHaveProperty('OMP_NUM_THREADS');
  });

  it('lets the flags and variables of the user win, and the inherited ones only over its own tuning', () => {
    expect(args({ args: ['--max-loras', '8'] }).slice(-2)).toEqual(['--max-loras', '8']);
    const baseEnv = {
      OMP_NUM_THREADS: '7',
      VLLM_CPU_KVCACHE_SPACE: '3',
      VLLM_API_KEY: 'theirs',
      VLLM_ALLOW_RUNTIME_LORA_UPDATING: '0',
      GONE: undefined,
    };
    expect(env({ env: { VLLM_CPU_KVCACHE_SPACE: '5' } }, { ...cpu, baseEnv })).toEqual({
      VLLM_NO_USAGE_STATS: '1',
      HF_HUB_OFFLINE: '1',
      OMP_NUM_THREADS: '7',
      VLLM_CPU_KVCACHE_SPACE: '5',
      VLLM_API_KEY: needs.apiKey,
      VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1',
    });
  });

  it.each([
    [{ args: ['--port', '80'] }, /args must not set --port:/],
    [{ args: ['--tensor-parallel-size=2'] }, /args must not set --tensor-parallel-size: .*Set \[policy\.launch\]\.tensor_parallel_size/],
    [{ args: ['-tp', '2'] }, /args must not set --tensor-parallel-size/],
    [{ args: ['--api-key=secret-of-the-user'] }, /args must not set --api-key:/],
    [{ args: ['--served_model_name', 'x'] }, /args must not set --served-model-name:/],
    [{ env: { VLLM_API_KEY: 'secret-of-the-user' } }, /env must not set VLLM_API_KEY:.*base_url/],
  ])('refuses %j, without quoting values', (changes, message) => {
    expect(() => vllmCommand({ ...needs, ...changes }, gpu)).toThrow(message);
    expect(() => vllmCommand({ ...needs, ...changes }, gpu)).not.toThrow(/secret-of-the-user/);
  });

  it('holds the key only in the environment {any key}', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[\w-]{16,64}$/), (apiKey) => {
        const command = vllmCommand({ ...needs, apiKey }, cpu);
        expect(command.args.join(' ')).not.toContain(apiKey);
        expect(command.env['VLLM_API_KEY']).toBe(apiKey);
      }),
    );
  });
});

describe('maxLoraRank', () => {
  it('is the smallest choice of vLLM that serves the rank {ranks 1 to 512}', () => {
    const choices = [1, 8, 16, 32, 64, 128, 256, 320, 512];
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 512 }), (rank) => {
        const limit = maxLoraRank(rank);
        expect(choices).toContain(limit);
        expect(choices.filter((choice) => choice >= rank && choice < limit)).toEqual([]);
        expect(limit).toBeGreaterThanOrEqual(rank);
      }),
    );
  });

  it.each([0, 513, 1.5, NaN])('refuses %d', (rank) => {
    expect(() => maxLoraRank(rank)).toThrow(/\[lora\]\.rank must be a whole number/);
  });
});

describe('flagValue', () => {
  it.each([
    [['--tensor-parallel-size=2'], '2'],
    [['--tensor_parallel_size', '4'], '4'],
    [['--tensor-parallel-size=2', '--tensor-parallel-size=8'], '8'],
    [['--tensor-parallel-size'], null],
    [['--other=1'], null],
  ])('of %j is %j', (given, value) => {
    expect(flagValue(given, '--tensor-parallel-size')).toBe(value);
  });
});
