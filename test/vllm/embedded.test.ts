/**
 * Three engines, one model directory, one adapter directory: the embedded engine, the torch worker and a real vLLM give the same tokens the same log-probs,
 * whichever sampled them, and what one sampled trains alike in the others.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import type { Generation } from '../../src/engine/engine-types.ts';
import { EmbeddedBackend } from '../../src/trainer/gradients/embedded/embedded-backend.ts';
import type { GradientBackend, PackedBatch } from '../../src/trainer/gradient-backend.ts';
import type { TorchBackend } from '../../src/trainer/gradients/torch/torch-backend.ts';
import { ADAM } from '../contracts/gradient-subject.ts';
import { nanoRequest } from '../engine/nano-requests.ts';
import { openNano } from '../trainer/gradients/torch/nano-backend.ts';
import { NANO_BASE } from '../trainer/gradients/torch/torch-python.ts';

const signal = new AbortController().signal;
const LORA_URL = inject('vllmLoraUrl');
const ADAPTER = {
  rank: 8,
  alpha: 16,
  targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
  seed: 3,
  initial: null,
} as const;
const NAME = 'crossed';
const PROMPTS = 6;
const TOKENS = 40;

interface Trajectory {
  readonly prompt: readonly number[];
  readonly sampled: readonly number[];
  readonly logProbs: readonly number[];
}

let engine: EmbeddedEngine;
let embedded: EmbeddedBackend;
let torch: TorchBackend;
let folder: string;
let directory: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'vf-three-engines-'));
  engine = await EmbeddedEngine.open({ modelPath: NANO_BASE, threads: 2, signal });
  const first = await EmbeddedBackend.on(engine, { adapter: ADAPTER, signal });
  // Half of all mistakes are invisible as long as B is 0.
  for (const phase of [0, 1]) await trainOn(first, packed([await sample(null, prompt(0))]), { phase, learningRate: 0.03 });
  ({ directory } = await first.saveAdapter(join(folder, 'adapter')));
  await first.close();
  embedded = await EmbeddedBackend.on(engine, { adapter: { ...ADAPTER, initial: directory }, signal });
  await engine.loadAdapter({ name: NAME, directory, signal });
  await ask('load_lora_adapter', { lora_name: NAME, lora_path: directory });
  torch = await openNano({ adapter: { ...ADAPTER, initial: directory } });
});
afterAll(async () => {
  await ask('unload_lora_adapter', { lora_name: NAME }).catch(() => {});
  await Promise.all([embedded?.close(), torch?.close()]);
  await engine?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function ask(path: string, body: object): Promise<string> {
  const response = await fetch(`${LORA_URL}/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  expect({ status: response.status, text: response.ok ? '' : text }).toEqual({ status: 200, text: '' });
  return text;
}

function prompt(i: number): Int32Array {
  return engine.tokenizer.encode(`Answer the given question. Question: who is the mayor of town ${i}?\n<think>`, { addSpecialTokens: false });
}

async function sample(adapter: string | null, ids: Int32Array): Promise<Trajectory> {
  const { ids: sampled, logProbs }: Generation = await engine.generate(
    nanoRequest({
      prompt: ids,
      adapter,
      maxTokens: TOKENS,
      stop: { strings: [], includeString: true, tokenIds: [], ignoreEnd: true, minTokens: 0 },
      signal,
    }),
  );
  return { prompt: [...ids], sampled: [...sampled], logProbs: [...logProbs] };
}

async function sampleFromVllm(model: string, ids: Int32Array): Promise<Trajectory> {
  const body = {
    model,
    prompt: [...ids],
    max_tokens: TOKENS,
    temperature: 1,
    top_p: 1,
    top_k: -1,
    logprobs: 0,
    return_token_ids: true,
    ignore_eos: true,
    seed: 7,
  };
  const { choices } = JSON.parse(await ask('completions', body)) as {
    choices: [{ token_ids: number[]; logprobs: { token_logprobs: number[] } }];
  };
  return { prompt: [...ids], sampled: choices[0].token_ids, logProbs: choices[0].logprobs.token_logprobs };
}

/** vLLM's log-probs of given tokens. One request at a time: during another, prompt_logprobs kills this build. */
async function judgedByVllm(model: string, { prompt: start, sampled }: Trajectory): Promise<number[]> {
  const ids = [...start, ...sampled];
  const body = { model, prompt: ids, max_tokens: 1, temperature: 1, prompt_logprobs: 0 };
  const { choices } = JSON.parse(await ask('completions', body)) as {
    choices: [{ prompt_logprobs: (Record<string, { logprob: number }> | null)[] }];
  };
  return sampled.map((id, i) => choices[0].prompt_logprobs[start.length + i]![id]!.logprob);
}

/** Sampled tokens are the targets. */
function packed(trajectories: readonly Trajectory[]): PackedBatch {
  const offsets = [0];
  const targets: number[] = [];
  for (const { prompt: start, sampled } of trajectories) {
    const from = offsets.at(-1)! + start.length;
    targets.push(...sampled.map((_, t) => from + t));
    offsets.push(from + sampled.length);
  }
  const ids = Int32Array.from(trajectories.flatMap(({ prompt: start, sampled }) => [...start, ...sampled]));
  return { ids, offsets: Int32Array.from(offsets), targets: Int32Array.from(targets), temperature: 1 };
}

async function trainOn(
  backend: GradientBackend,
  batch: PackedBatch,
  { phase, learningRate }: { readonly phase: number; readonly learningRate: number },
) {
  const { batchId } = await backend.forward(batch, { retain: true, adapter: 'on', signal });
  await backend.backward(batchId, { dLogProbs: Float32Array.from(batch.targets, (_, i) => Math.sin(i + phase) / batch.targets.length) });
  return backend.optimStep({ ...ADAM, learningRate });
}

function largest(found: ArrayLike<number>, expected: ArrayLike<number>): number {
  expect(found.length).toBe(expected.length);
  return Math.max(...Array.from(found, (value, i) => Math.abs(value - expected[i]!)));
}

describe.each([
  ['the base', null],
  ['an adapter', NAME],
] as const)('three engines on %s', (_, adapter) => {
  const ofBackend = adapter === null ? 'off' : 'on';
  const model = adapter ?? 'nano-base';

  it('give what the embedded engine sampled the same log-probs', async () => {
    const sampled = await Promise.all(Array.from({ length: PROMPTS }, (_value, i) => sample(adapter, prompt(i))));
    const reported = sampled.flatMap(({ logProbs }) => logProbs);
    const own = await embedded.forward(packed(sampled), { retain: false, adapter: ofBackend, signal });
    expect([...own.logProbs]).toEqual(reported);
    const inTorch = await torch.forward(packed(sampled), { retain: false, adapter: ofBackend, signal });
    expect(largest(inTorch.logProbs, reported)).toBeLessThan(2e-5);
    const inVllm: number[] = [];
    for (const trajectory of sampled) inVllm.push(...(await judgedByVllm(model, trajectory)));
    expect(largest(inVllm, reported)).toBeLessThan(2e-5);
  });

  it('give what vLLM sampled the same log-probs', async () => {
    const sampled: Trajectory[] = [];
    for (let i = 0; i < PROMPTS; i++) sampled.push(await sampleFromVllm(model, prompt(i)));
    const reported = sampled.flatMap(({ logProbs }) => logProbs);
    for (const backend of [embedded, torch]) {
      const { logProbs } = await backend.forward(packed(sampled), { retain: false, adapter: ofBackend, signal });
      expect(largest(logProbs, reported)).toBeLessThan(2e-5);
    }
  });
});

it('trains rollouts of vLLM in the embedded engine as in torch', async () => {
  const sampled: Trajectory[] = [];
  for (let i = 0; i < PROMPTS; i++) sampled.push(await sampleFromVllm(NAME, prompt(i)));
  const batch = packed(sampled);
  const before = await torch.forward(batch, { retain: false, adapter: 'on', signal });
  const norms = [];
  for (const backend of [embedded, torch]) norms.push((await trainOn(backend, batch, { phase: 2, learningRate: 0.01 })).gradNorm);
  expect(Math.abs(norms[0]! / norms[1]! - 1)).toBeLessThan(1e-4);
  const [ours, theirs] = await Promise.all([embedded, torch].map((backend) => backend.forward(batch, { retain: false, adapter: 'on', signal })));
  const moved = largest(ours!.logProbs, before.logProbs);
  expect(moved).toBeGreaterThan(0.01);
  // Adam's first step has the same size for every weight, so a gradient of rounding size may move one weight either way.
  expect(largest(ours!.logProbs, theirs!.logProbs) / moved).toBeLessThan(1e-4);
});
