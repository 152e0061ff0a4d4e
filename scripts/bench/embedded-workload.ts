/** Workload of the embedded engine's benches, with the sizes of a GRPO step of the nano model: 8 questions with 8 rollouts each. */
import { Random } from '../../src/core/random.ts';
import type { GenerateRequest } from '../../src/engine/engine-types.ts';
import type { PackedBatch } from '../../src/trainer/gradient-backend.ts';

export const NANO = 'models/nano-base';
/** Ids from here on are the nano model's tags and special tokens. */
const PLAIN_IDS = 1580;
const HEAD_TOKENS = 115;
const QUESTION_TOKENS = 15;
const OWN_TOKENS = 70;

/** Prompts with a common prefix, each repeated `samples` times. */
export function prompts(questions: number, samples: number): Int32Array[] {
  const random = Random.fromSeed(1);
  const draw = (n: number) => Array.from({ length: n }, () => random.integer(PLAIN_IDS));
  const head = draw(HEAD_TOKENS);
  return Array.from({ length: questions }, () => Int32Array.from([...head, ...draw(QUESTION_TOKENS)])).flatMap((prompt) =>
    Array.from({ length: samples }, () => prompt),
  );
}

export function request(
  prompt: Int32Array,
  options: { readonly adapter: string | null; readonly maxTokens: number; readonly seed: number | null },
): GenerateRequest {
  const { adapter, maxTokens, seed } = options;
  return {
    prompt,
    adapter,
    maxTokens,
    sampling: { temperature: 1, topP: 1, topK: -1, minP: 0, seed },
    stop: { strings: [], includeString: true, tokenIds: [], ignoreEnd: true, minTokens: 0 },
    skipSpecialTokens: true,
    logProbs: 0,
    promptLogProbs: null,
    logProbsMode: 'raw',
    allowedTokenIds: null,
    cacheSalt: null,
    signal: new AbortController().signal,
  };
}

/** Whole sequences; a third of the tokens after the prompt are targets. */
export function trainingBatch(questions: number, samples: number): PackedBatch {
  const random = Random.fromSeed(2);
  const sequences = prompts(questions, samples).map((prompt) => [...prompt, ...Array.from({ length: OWN_TOKENS }, () => random.integer(PLAIN_IDS))]);
  const offsets = Int32Array.from({ length: sequences.length + 1 }, (_, i) => sequences.slice(0, i).reduce((sum, { length }) => sum + length, 0));
  const targets = sequences.flatMap(({ length }, i) =>
    Array.from({ length: length - HEAD_TOKENS - QUESTION_TOKENS }, (_, t) => t)
      .filter((t) => t % 3 === 0)
      .map((t) => offsets[i]! + HEAD_TOKENS + QUESTION_TOKENS + t),
  );
  return { ids: Int32Array.from(sequences.flat()), offsets, targets: Int32Array.from(targets), temperature: 1 };
}

export const ADAPTER = {
  rank: 8,
  alpha: 16,
  targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
  seed: 0,
  initial: null,
} as const;

export const ADAM = { learningRate: 1e-4, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 } as const;
