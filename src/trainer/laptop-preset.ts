/**
 * The preset of a first run: the model and the world that come with this package, sampled and trained by the embedded engine. It is the one preset that
 * names everything a run needs, so `vf-train search-r1 --preset laptop` is a whole command.
 */
import type { ConfigLayer } from './resolve-config.ts';

export const LAPTOP: ConfigLayer['table'] = {
  steps: 12,
  environment: {
    id: 'search-r1',
    // One search and an answer: a turn that leaves its tag open then costs the reward. Judged as Search-R1 plays, with two searches.
    args: { dataset: 'fact-world', topk: 3, max_turns: 1 },
    eval_args: { max_turns: 2 },
  },
  model: { path: 'nano-base' },
  policy: { embedded: {} },
  backend: { kind: 'embedded' },
  lora: { rank: 8, alpha: 16 },
  // A good episode samples about 25 tokens.
  rollouts: { examples_per_step: 4, rollouts_per_example: 8, max_concurrent: 32, max_tokens: 64, max_staleness: 0 },
  algorithm: {
    advantage: { std: 'sample' },
    loss: { objective: 'clip', aggregation: 'token_mean', clip_low: 0.2, clip_high: 0.2 },
    kl: { coefficient: 0 },
    old_log_probs: 'sampler',
  },
  optimizer: { learning_rate: 2e-3, beta1: 0.9, beta2: 0.99 },
  // Before the first step and after the last: what lies between is seen in the rewards of the batches.
  evaluation: { every: 1000, examples: -1 },
  checkpoint: { every: 6 },
};
