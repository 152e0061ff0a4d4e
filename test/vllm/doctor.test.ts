/** What vf-doctor says of real servers that lack something: the set-up's own, which has the LoRA routes without LoRA, and one that is started here. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, inject, it } from 'vitest';
import { VllmProcess } from '../../src/launch/vllm-process.ts';
import { doctor } from './doctor-process.ts';
import { PYTHON } from './train-process.ts';

const KEY = 'sk-doctor-0123456789abcdef';

describe('vf-doctor with a real vLLM', () => {
  it('distinguishes a server that has the LoRA routes but no LoRA from one that accepts adapters', async () => {
    const { code, of } = await doctor(['-b', inject('vllmUrl')]);
    expect(code).toBe(1);
    expect(of('torch')).toMatchObject({ state: 'ok' });
    expect(of('tokens')).toMatchObject({ state: 'ok', text: 'ids and log-probs (raw)' });
    expect(of('adapters')).toMatchObject({ state: 'missing', text: expect.stringContaining('without --enable-lora') as string });
  });

  it('detects a server that was started without the variable for adapters', { tags: 'long' }, async () => {
    const python = join(mkdtempSync(join(tmpdir(), 'vf-doctor-python-')), 'python');
    writeFileSync(python, `#!/bin/sh\nunset VLLM_ALLOW_RUNTIME_LORA_UPDATING\nexec '${PYTHON}' "$@"\n`, { mode: 0o755 });
    await using server = await VllmProcess.start({
      python,
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
    });
    const { of } = await doctor(['-b', server.baseUrl, '-k', 'DOCTOR_KEY'], { DOCTOR_KEY: KEY });
    expect(of('adapters')).toMatchObject({ state: 'missing', text: expect.stringContaining('without VLLM_ALLOW_RUNTIME_LORA_UPDATING=1') as string });
  });
});
