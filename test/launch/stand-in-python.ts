/** A `python` for the tests: an executable script that answers the question for its vLLM, and serves as test/launch/stand-in-vllm.ts otherwise. */
import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { VllmLaunchOptions } from '../../src/launch/vllm-process.ts';

export const API_KEY = 'sk-stand-in-0123456789';

/** In a folder of its own, which also gets the log. */
function standInPython(isCpuBuild: boolean): { readonly folder: string; readonly python: string } {
  const folder = mkdtempSync(join(tmpdir(), 'vf-launch-'));
  const python = join(folder, 'python');
  const answer = JSON.stringify({ found: true, version: '0.0.0', isCpuBuild });
  const lines = [
    '#!/bin/sh',
    `if [ "$1" = -c ]; then echo '${answer}'; exit 0; fi`,
    `exec '${process.execPath}' '${fileURLToPath(import.meta.resolve('./stand-in-vllm.ts'))}' "$@"`,
  ];
  writeFileSync(python, `${lines.join('\n')}\n`);
  chmodSync(python, 0o755);
  return { folder, python };
}

export function launchOptions(changes: Partial<VllmLaunchOptions> = {}, { isCpuBuild = true } = {}): VllmLaunchOptions {
  const { folder, python } = standInPython(isCpuBuild);
  return {
    python,
    modelPath: 'test/models/nano-base',
    servedName: 'nano',
    loraRank: 4,
    maxStaleness: 1,
    temperature: 1,
    maxModelLen: 512,
    gpuShare: null,
    sleeps: false,
    args: [],
    env: {},
    baseEnv: { PATH: process.env['PATH'] },
    logPath: join(folder, 'vllm.log'),
    readyTimeoutMs: 20_000,
    apiKey: API_KEY,
    signal: new AbortController().signal,
    ...changes,
  };
}

export async function ask(server: { readonly baseUrl: string }, path: string): Promise<unknown> {
  const url = server.baseUrl.replace('/v1', path);
  return (await fetch(url, { headers: { authorization: `Bearer ${API_KEY}`, connection: 'close' } })).json();
}

/** True while a process exists that has not ended: one that was never reaped counts as ended. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return processState(pid) !== 'Z';
}

function processState(pid: number): string | null {
  const { status, stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' });
  return status === 0 ? stdout.trim().charAt(0) : 'Z';
}
