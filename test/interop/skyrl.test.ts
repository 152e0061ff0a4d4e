/** SkyRL's server of the Tinker API, and `vf-train --tinker` against it. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { describePeer, peerPython, resultLine } from './peer.ts';

const ROOT = join(import.meta.dirname, '../..');
const NANO = join(ROOT, 'models/nano-base');
const STARTS_MS = 240_000;
const SLOTS = JSON.stringify({ max_lora_adapters: 8, max_lora_rank: 8, train_micro_batch_size: 8, sample_max_num_sequences: 32 });

interface StepLine {
  readonly kind: string;
  readonly reward_mean: number;
  readonly log_prob_difference_max: number;
}

/** A port that was free a moment ago: SkyRL cannot be told to find one. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** `vf-train search-r1 --preset laptop` at the service; its steps. */
async function train(url: string, output: string, settings: readonly string[]): Promise<readonly StepLine[]> {
  const fixed = ['evaluation.every=0', `backend.base_url=${url}`, 'backend.pad_to=8'];
  const args = ['search-r1', '--preset', 'laptop', '--tinker', NANO, '-m', NANO, '-o', output, '--plain', '--json'];
  const command = [join(ROOT, 'bin/vf-train.js'), ...args, ...[...fixed, ...settings].flatMap((setting) => ['--set', setting])];
  const env = { ...process.env, TINKER_API_KEY: 'tml-test' };
  const { stdout } = await promisify(execFile)(process.execPath, command, { timeout: 280_000, maxBuffer: 2 ** 24, env });
  const { directory } = JSON.parse(stdout) as { directory: string };
  const lines = readFileSync(join(directory, 'metrics.jsonl'), 'utf8').trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as StepLine).filter(({ kind }) => kind === 'step');
}

describePeer('skyrl', {}, () => {
  const folder = mkdtempSync(join(tmpdir(), 'vf-interop-skyrl-'));
  const log = join(folder, 'log');
  let url = '';
  let stop = async () => {};
  beforeAll(async () => {
    const port = await freePort();
    mkdirSync(join(folder, 'checkpoints'));
    const file = openSync(log, 'w');
    const args = [join(import.meta.dirname, 'skyrl/serve.py'), String(port), folder, NANO, '--backend-config', SLOTS];
    const env = { ...process.env, JAX_PLATFORMS: 'cpu', HF_HUB_OFFLINE: '1' };
    const child = spawn(peerPython('skyrl')!, args, { stdio: ['ignore', file, file], detached: true, env });
    const ended = once(child, 'exit');
    stop = async () => {
      process.kill(-child.pid!, 'SIGKILL');
      await ended;
    };
    url = `http://127.0.0.1:${port}`;
    await vi.waitFor(() => fetch(`${url}/api/v1/healthz`), { timeout: STARTS_MS, interval: 500 });
  }, STARTS_MS);
  afterAll(async () => {
    await stop();
    rmSync(folder, { recursive: true });
  });

  it('samples and trains for vf-train, which finds out its dialect and its reduction and gives its slots back', async () => {
    const steps = await train(url, folder, ['steps=5']);
    const rewards = steps.map((step) => step.reward_mean);
    expect(rewards).toHaveLength(5);
    expect((rewards[3]! + rewards[4]!) / 2).toBeGreaterThan(rewards[0]! + 0.2);
    const largest = Math.max(...steps.map((step) => step.log_prob_difference_max));
    expect(largest).toBeLessThan(1e-5);
    const unloaded = readFileSync(log, 'utf8').match(/Unloaded\s+model/g)?.length ?? 0;
    expect(unloaded).toBeGreaterThan(0);
    resultLine(
      'skyrl',
      '0.3.0, JAX on the CPU',
      'vf-train search-r1 --preset laptop --tinker: 8 × 8 rollouts a step',
      `reward ${rewards.map((reward) => reward.toFixed(2).replace('0.', '.')).join(' ')}; sampler and trainer within ${largest.toExponential(1)}; ${unloaded} models unloaded at the end`,
    );
  });
});
