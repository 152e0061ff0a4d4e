import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from 'vitest';
import { forkedPython, skipReason, torchPython } from './torch-python.ts';

interface Comparison {
  /** Why the worker does not take such a base. */
  readonly refused?: string;
  /** Largest difference, in nats, with the adapter and without. */
  readonly log_probs: number;
  readonly base: number;
  /** Norm of the difference over the norm. */
  readonly gradient: number;
}

const SMALL = {
  vocab_size: 200,
  hidden_size: 64,
  intermediate_size: 96,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 512,
  pad_token_id: 0,
};
const LINEAR = { linear_num_value_heads: 4, linear_num_key_heads: 2, linear_key_head_dim: 16, linear_value_head_dim: 16 };
const rope = (parameters: object) => ({ rope_parameters: { rope_theta: 1e4, ...parameters } });

const TAKEN = {
  'Qwen2.5: biases, tied head': { model_type: 'qwen2', tie_word_embeddings: true },
  'Qwen2.5 with YaRN': { model_type: 'qwen2', ...rope({ rope_type: 'yarn', factor: 4, original_max_position_embeddings: 16 }) },
  'Qwen3: norms of queries and keys, heads of their own size': { model_type: 'qwen3', head_dim: 32 },
  'Qwen3 MoE: attention next to frozen experts': {
    model_type: 'qwen3_moe',
    head_dim: 16,
    num_experts: 6,
    num_experts_per_tok: 2,
    moe_intermediate_size: 32,
  },
  'Llama 3.1: scaled rotation': {
    model_type: 'llama',
    ...rope({ rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 16 }),
  },
  'Mistral: windows shorter than the sequences': { model_type: 'mistral', sliding_window: 12 },
  'Gemma: shifted norms, scaled embeddings': { model_type: 'gemma', head_dim: 16 },
  'Gemma 3: windows in some layers': { model_type: 'gemma3_text', head_dim: 16, sliding_window: 12, sliding_window_pattern: 2 },
};

const REFUSED = {
  'Gemma 2: capped logits': [{ model_type: 'gemma2', head_dim: 16 }, /final_logit_softcapping is 30/],
  'gpt-oss: attention sinks': [
    { model_type: 'gpt_oss', head_dim: 16, num_local_experts: 2, num_experts_per_tok: 1 },
    /GptOssAttention also passes s_aux/,
  ],
  'a rotation that depends on the longest sequence': [
    { model_type: 'llama', ...rope({ rope_type: 'dynamic', factor: 2 }) },
    /rope_type dynamic.*yarn/,
  ],
  'Qwen3.5: a recurrence that runs on into the next sequence': [
    { model_type: 'qwen3_5_text', head_dim: 16, ...LINEAR },
    /Qwen3_5ForCausalLM .* depend on the sequence before/,
  ],
  'Falcon-H1: a state space next to the attention': [{ model_type: 'falcon_h1' }, /FalconH1ForCausalLM .* depend on the sequence before/],
} as const;

describe.skipIf(torchPython.path === null)(`architectures in the torch worker${skipReason}`, () => {
  let found: Readonly<Record<string, Comparison>>;

  beforeAll(async () => {
    const configs = { ...TAKEN, ...Object.fromEntries(Object.entries(REFUSED).map(([name, [config]]) => [name, config])) };
    const child = spawn(forkedPython(), [join(import.meta.dirname, 'architectures.py')], {
      env: { ...process.env, HF_HUB_OFFLINE: '1' },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    child.stdin.end(
      JSON.stringify({
        worker: join(import.meta.dirname, '../../../../src/trainer/gradients/torch'),
        configs: Object.fromEntries(Object.entries(configs).map(([name, config]) => [name, { ...SMALL, ...config }])),
      }),
    );
    found = (await json(child.stdout)) as typeof found;
  }, 240_000);

  it.each(Object.keys(TAKEN))('have the log-probs and gradients of transformers, packed: %s', (name) => {
    const { refused, log_probs: logProbs, base, gradient } = found[name]!;
    expect(refused).toBeUndefined();
    expect(Math.max(logProbs, base)).toBeLessThan(2e-5);
    expect(gradient).toBeLessThan(1e-5);
  });

  it.each(Object.entries(REFUSED).map(([name, [, text]]) => [name, text] as const))('are refused before anything is sampled: %s', (name, text) => {
    expect(found[name]!.refused).toMatch(text);
    expect(found[name]!.refused).not.toContain('\n');
  });
});
