/**
 * Presets: a first run on a laptop, and published Search-R1 recipes as far as LoRA and an HTTP server allow, with every upstream value that differs
 * here and the reason. Sources: PeterGriffinJin/Search-R1 at a14dc3a4 (`scripts/nq_hotpotqa/v0.2/train_grpo.sh` and
 * `v0.3/train_grpo_format.sh`, `verl/trainer/config/ppo_trainer.yaml`), thinking-machines-lab/tinker-cookbook (Search-R1 recipe).
 */
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { LAPTOP } from './laptop-preset.ts';
import { type ConfigLayer, PRESET_SOURCE } from './resolve-config.ts';

interface PresetDifference {
  /** Dotted key, or upstream's name if there is no key here. */
  readonly key: string;
  readonly upstream: string;
  readonly ours: string;
  readonly why: string;
}

export interface Preset {
  readonly name: string;
  /** One line. */
  readonly summary: string;
  readonly table: ConfigLayer['table'];
  /** Empty for a preset without upstream. */
  readonly differences: readonly PresetDifference[];
}

const SEARCH_R1_ENVIRONMENT = { max_turns: 4, topk: 3, max_response_length: 500, max_obs_length: 500, max_prompt_length: 4096 };

/** train_grpo.sh of v0.2. */
const SEARCH_R1 = {
  steps: 1005,
  environment: { id: 'search-r1', args: SEARCH_R1_ENVIRONMENT },
  lora: { rank: 16, alpha: 32 },
  rollouts: { examples_per_step: 512, rollouts_per_example: 5, temperature: 1, truncated: 'train', max_staleness: 0 },
  algorithm: {
    advantage: { scope: 'group', baseline: 'mean', std: 'sample', epsilon: 1e-6 },
    loss: { objective: 'clip', ratio: 'token', aggregation: 'token_mean', clip_low: 0.2, clip_high: 0.2 },
    kl: { coefficient: 0.001, estimator: 'k3', clamp: 10, against: 'reference', placement: 'loss' },
    old_log_probs: 'trainer',
    minibatches: 10,
    epochs: 1,
    entropy_coefficient: 0.001,
    constant_groups: 'keep',
  },
  optimizer: {
    learning_rate: 1e-5,
    schedule: 'constant',
    warmup_ratio: 0.285,
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-8,
    weight_decay: 0.01,
    max_grad_norm: 1,
  },
  evaluation: { every: 50, examples: -1, rollouts_per_example: 1 },
  checkpoint: { every: 10 },
} as const;

const LORA: PresetDifference = {
  key: 'lora.rank',
  upstream: 'full fine-tuning',
  ours: '16, alpha 32',
  why: 'a LoRA of this size matches full fine-tuning in RL ("LoRA Without Regret"), and a running server can load it',
};

const SEARCH_R1_DIFFERENCES: readonly PresetDifference[] = [
  {
    key: 'top_p',
    upstream: '0.95',
    ours: '1, not a setting',
    why: "below 1 the server samples from a truncated distribution whose log-probs no trainer can reproduce; the paper's text says 1.0",
  },
  LORA,
  {
    key: 'environment.args.dataset',
    upstream: 'nq,hotpotqa over wiki-18 with E5 (train_grpo.sh at the root: nq, 2 turns)',
    ours: 'nq-mini over its own corpus, unless dataset and retriever_url are set',
    why: 'a first run needs no download; configs/train/qwen2.5-3b-nq.toml has the full setup',
  },
  {
    key: 'algorithm.minibatches',
    upstream: 'ppo_mini_batch_size 256 of 2,560 rollouts (512 × n_agent 5): 10 updates per batch',
    ours: '10, each of whole groups (51 or 52)',
    why: 'n_agent multiplies the batch but not the mini-batch; upstream splits groups between mini-batches',
  },
  {
    key: 'algorithm.loss.aggregation',
    upstream: 'token mean of each micro-batch, then their mean',
    ours: 'token_mean of the whole optimiser step',
    why: 'the gradient then does not depend on how a batch is split to fit memory',
  },
  {
    key: 'algorithm.loss.log_ratio_clamp',
    upstream: 'unbounded',
    ours: '20',
    why: "verl's later bound: it prevents overflow in exp and never binds in a healthy run",
  },
  {
    key: 'optimizer.warmup_ratio',
    upstream: '0.285, starting at 0: the first batch changes nothing',
    ours: '0.285, starting at 1 / warm-up steps',
    why: 'a batch that took minutes to sample is not wasted',
  },
  {
    key: 'groups',
    upstream: 'by the row index, which collides between nq and hotpotqa',
    ours: 'by row',
    why: 'all rollouts of a group must answer the same question',
  },
  {
    key: 'evaluation.examples',
    upstream: 'the last incomplete batch of 256 rows is dropped',
    ours: 'all rows',
    why: 'up to 255 rows were never scored',
  },
  { key: 'checkpoint.every', upstream: '100', ours: '10', why: 'an adapter with its Adam state is small' },
];

const TEN_TIMES = 'LoRA needs about ten times the learning rate of full fine-tuning (1e-5 to 4e-5 in published RL runs)';

const TINKER = {
  steps: 100,
  environment: {
    id: 'search-r1',
    args: {
      max_turns: 4,
      topk: 3,
      max_response_length: 1024,
      max_prompt_length: 32_768,
      structure_format_score: 0.1,
      final_format_score: 0,
    },
  },
  lora: { rank: 32, alpha: 32 },
  rollouts: { examples_per_step: 512, rollouts_per_example: 8, temperature: 1, max_staleness: 0 },
  algorithm: {
    advantage: { scope: 'group', baseline: 'mean', std: 'none' },
    loss: { objective: 'importance_sampling', ratio: 'token', aggregation: 'sum' },
    kl: { coefficient: 0 },
    old_log_probs: 'sampler',
    minibatches: 1,
    epochs: 1,
    entropy_coefficient: 0,
    constant_groups: 'drop',
  },
  optimizer: {
    learning_rate: 4e-5,
    schedule: 'constant',
    warmup_steps: 0,
    beta1: 0.9,
    beta2: 0.95,
    epsilon: 1e-8,
    weight_decay: 0,
    max_grad_norm: null,
  },
} as const;

export const PRESETS: readonly Preset[] = [
  {
    name: 'laptop',
    summary:
      'a complete run that requires only Node: the bundled 1M-parameter model is sampled and trained in this process, and learns to search the bundled fact world',
    table: LAPTOP,
    differences: [],
  },
  {
    name: 'search-r1-grpo',
    summary: "Search-R1's GRPO (v0.2): exact match, 512 × 5, KL 0.001, 1,005 steps",
    table: SEARCH_R1,
    differences: [{ key: 'optimizer.learning_rate', upstream: '1e-6', ours: '1e-5', why: TEN_TIMES }, ...SEARCH_R1_DIFFERENCES],
  },
  {
    name: 'search-r1-grpo-format',
    summary: 'the same with the format reward of v0.3 (0.2, 0.1, 0), half the learning rate',
    table: {
      ...SEARCH_R1,
      environment: {
        ...SEARCH_R1.environment,
        args: { ...SEARCH_R1_ENVIRONMENT, score: 1, structure_format_score: 0.2, final_format_score: 0.1, retrieval_score: 0 },
        // Upstream's validation of v0.3 has zero weights: plain exact match.
        eval_args: { structure_format_score: 0, final_format_score: 0 },
      },
      optimizer: { ...SEARCH_R1.optimizer, learning_rate: 5e-6 },
    },
    differences: [{ key: 'optimizer.learning_rate', upstream: '5e-7', ours: '5e-6', why: TEN_TIMES }, ...SEARCH_R1_DIFFERENCES],
  },
  {
    name: 'tinker',
    summary: "tinker-cookbook's Search-R1: importance sampling, 512 × 8, rank 32, lr 4e-5",
    table: TINKER,
    differences: [
      { key: 'steps', upstream: 'to the end of the data set', ours: '100', why: 'its README reports multi-turn search after 10 to 25 steps' },
      {
        key: 'environment',
        upstream: 'search as a tool call in a chat, at most 5 turns; HotpotQA and NQ over wiki-18 with Gemini embeddings',
        ours: "Search-R1's protocol in one assistant turn: 4 generations that may search and a final one; data and retriever as configured",
        why: "the preset takes upstream's recipe, not its environment",
      },
      {
        key: 'environment.args.structure_format_score',
        upstream: 'format coefficient 0.1: right 1, right in a wrong format 0.9, wrong 0, both wrong -0.1',
        ours: 'right 1, right in a wrong format 0.9, wrong 0.1, both wrong 0',
        why: 'the closest that the v0.3 reward weights allow: a valid format is worth 0.1 in both, a right answer 0.9 instead of 1',
      },
      {
        key: 'lora.targets',
        upstream: 'attention, MLP and unembedding',
        ours: 'attention and MLP',
        why: 'vLLM does not support adapters on the LM head of every model',
      },
    ],
  },
];

/** Throws ConfigError for an unknown name. */
export function presetNamed(name: string): Preset {
  const preset = PRESETS.find((candidate) => candidate.name === name);
  if (preset !== undefined) return preset;
  const names = PRESETS.map((candidate) => candidate.name);
  throw new ConfigError(`Unknown preset "${name}"${suggestion(name, names)}; known presets: ${names.join(', ')}`);
}

export function presetLayer({ name, table }: Preset): ConfigLayer {
  return { source: `${PRESET_SOURCE}${name}`, table };
}
