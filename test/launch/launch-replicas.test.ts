import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, PolicyError } from '../../src/core/errors.ts';
import { launchReplicas, type LaunchReplicasOptions } from '../../src/launch/launch-replicas.ts';
import { ask, isRunning, launchOptions } from './stand-in-python.ts';

function options(
  changes: Partial<LaunchReplicasOptions>,
  python?: { readonly isCpuBuild: boolean },
): LaunchReplicasOptions & { readonly folder: string } {
  const { logPath, ...launch } = launchOptions({}, python);
  const folder = dirname(logPath);
  return { ...launch, folder, replicas: 2, tensorParallelSize: 1, logPath: (i) => join(folder, `vllm-${i}.log`), ...changes };
}

describe('launchReplicas', () => {
  it('starts every replica on a port of its own, with its own log and its own GPUs', async () => {
    const launch = options({ replicas: 3, env: { CUDA_VISIBLE_DEVICES: '3,1,2' } }, { isCpuBuild: false });
    const started = await launchReplicas(launch);
    expect(new Set(started.map(({ baseUrl }) => baseUrl)).size).toBe(3);
    for (const server of started) expect(await ask(server, '/v1/models')).toEqual({ data: [{ id: 'nano' }] });
    const gpus = started.map((_, i) => /GPUs (\S+),/.exec(readFileSync(launch.logPath(i), 'utf8'))![1]);
    expect(gpus).toEqual(['3', '1', '2']);
    for (const server of started) await server.stop();
  });

  it('lets the processes of a CPU build share the machine', async () => {
    const started = await launchReplicas(options({ env: { CUDA_VISIBLE_DEVICES: '0' } }));
    expect(started).toHaveLength(2);
    for (const server of started) await server.stop();
  });

  it('starts nothing where there are too few GPUs', async () => {
    const launch = options({ tensorParallelSize: 2, env: { CUDA_VISIBLE_DEVICES: '0,1' } }, { isCpuBuild: false });
    await expect(launchReplicas(launch)).rejects.toThrow(ConfigError);
    expect(() => readFileSync(launch.logPath(0))).toThrow(/ENOENT/);
  });

  it('leaves none running when one of them does not start', async () => {
    const pids: number[] = [];
    const launch = options({});
    // The second one finds its log path taken by a folder.
    const failing = { ...launch, logPath: (i: number) => (i === 0 ? launch.logPath(0) : launch.folder) };
    await expect(launchReplicas(failing)).rejects.toThrow(ConfigError);
    await expect(launchReplicas({ ...options({}), env: { STAND_IN: 'fails' } })).rejects.toThrow(PolicyError);
    for (const [, pid] of readFileSync(launch.logPath(0), 'utf8').matchAll(/pid (\d+)/g)) pids.push(Number(pid));
    expect(pids).toHaveLength(1);
    expect(pids.filter(isRunning)).toEqual([]);
  });
});
