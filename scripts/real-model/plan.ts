/** The plan of the proof with a real language model: sizes, settings, and the budget of each stage. */

export interface ProofPlan {
  readonly environmentArgs: Readonly<Record<string, unknown>>;
  /** New tokens per generation: 96 hold 99 % of the demonstrations' turns. */
  readonly maxTokens: number;
  /** Rows for transcripts; null for all of nq-mini's train split. */
  readonly transcriptRows: number | null;
  /** Wording of the demonstrations, and the further ones of each row with arranged passages. */
  readonly demonstrations: { readonly wording: 'quote' | 'title'; readonly arrangements: number };
  /** Test rows that each policy answers greedily, and how many of them it also answers sampled at temperature 1. */
  readonly greedyRows: number;
  readonly sampledRows: number;
  /** Settings of the supervised warm-up, by key of [sft] in the configuration. */
  readonly warmUp: Readonly<Record<string, string | number>>;
  /** Settings of GRPO that differ from training.toml. */
  readonly grpo: Readonly<Record<string, string | number>>;
  /** Steps after each stage of GRPO: each stage takes at most two hours and goes on from the one before. */
  readonly grpoSteps: readonly number[];
  readonly controlSteps: number;
  /** Sampled test rows that the control answers. */
  readonly controlRows: number;
}

/** One search in a good episode; a second one is allowed. The generation ends at the answer, because a token after it is never kept. */
const ENVIRONMENT = { topk: 2, stop_at_answer: true };

export const FULL_PLAN: ProofPlan = {
  environmentArgs: ENVIRONMENT,
  maxTokens: 96,
  transcriptRows: null,
  demonstrations: { wording: 'quote', arrangements: 0 },
  greedyRows: 500,
  sampledRows: 200,
  warmUp: { batch_size: 8, steps: 100, learning_rate: 5e-4, schedule: 'cosine', warmup_steps: 4 },
  grpo: {
    'optimizer.learning_rate': 5e-4,
    'optimizer.schedule': 'linear',
    'rollouts.examples_per_step': 8,
    'rollouts.max_concurrent': 64,
  },
  grpoSteps: [6],
  controlSteps: 2,
  controlRows: 100,
};

/** Four minutes: shows that every stage runs, and nothing about quality. */
export const QUICK_PLAN: ProofPlan = {
  environmentArgs: ENVIRONMENT,
  maxTokens: 24,
  transcriptRows: 24,
  demonstrations: { wording: 'title', arrangements: 1 },
  greedyRows: 2,
  sampledRows: 2,
  warmUp: { batch_size: 2, steps: 2, learning_rate: 5e-4 },
  grpo: { 'rollouts.examples_per_step': 1, 'rollouts.rollouts_per_example': 2 },
  grpoSteps: [1],
  controlSteps: 1,
  controlRows: 2,
};
