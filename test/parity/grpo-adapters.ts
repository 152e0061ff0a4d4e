/** Adapters for grpo-000: rewards, search, configuration, data, views, advantages and updates. The transcripts have an adapter of their own. */
import { TokenBuffer } from '../../src/core/token-buffer.ts';
import { ConfigError } from 'vf-search';
import {
  answerReward,
  finalAnswer,
  formatReward,
  MockSearchEngine,
  parseConfig,
  rowsFromJson,
  toTrajectory,
  trajectoryFromJson,
  type ViewedRollout,
} from 'vf-search/environments/grpo-000';

import { groupAdvantages } from '../../src/trainer/credit/group-advantages.ts';
import { klEstimate } from '../../src/trainer/losses/kl.ts';
import { ratioLoss } from '../../src/trainer/losses/ratio-loss.ts';
import { countTokens } from '../../src/trainer/losses/token-counts.ts';
import { flat, offsetsOf, rowsOf } from './ragged-rows.ts';
import { type Adapter, isSame } from './vectors.ts';

const LEFT_OUT = 'a row without a question and an answer is an error that names it, where upstream leaves it out';

interface Rewarded {
  readonly text: string;
  readonly ground_truth: string;
  readonly strict: boolean;
}

interface Stepped {
  readonly trajectories: readonly { readonly old: readonly number[]; readonly new: readonly number[]; readonly advantage: number }[];
  readonly clip_epsilon: number;
  readonly beta: number;
}

interface Piece {
  readonly kind: 'model' | 'observation';
  readonly ids: readonly number[];
  readonly texts: readonly string[];
  readonly log_probs?: readonly number[];
}

interface Viewed {
  readonly query: string;
  readonly prompt_ids: readonly number[];
  readonly pieces: readonly Piece[];
  readonly reward: number;
  readonly advantage: number;
}

export const grpoAdapters: Readonly<Record<string, Adapter>> = {
  grpo_format_counts: { actual: ({ text }: { text: string }) => formatReward(text, { strict: false }) },
  grpo_format_strict: { actual: ({ text }: { text: string }) => formatReward(text) },
  grpo_answer: {
    actual: ({ final_answer, ground_truth }: { final_answer: string; ground_truth: string }) => answerReward(final_answer, ground_truth),
  },
  grpo_reward: { actual: rewarded },
  grpo_mock_search: {
    actual: ({ knowledge_base, query }: { knowledge_base: Record<string, string>; query: string }) =>
      new MockSearchEngine(knowledge_base).search(query),
  },
  grpo_config: { actual: configured },
  grpo_data: { actual: read, declared: ({ tags }) => (tags.includes('coercion') ? LEFT_OUT : undefined) },
  grpo_trajectory: { actual: viewed },
  grpo_advantages: {
    actual: ({ rewards }: { rewards: readonly number[] }) =>
      Array.from(groupAdvantages(rewards, { baseline: 'mean', std: 'population', epsilon: 1e-8, singleton: 'zero' }).advantages),
  },
  grpo_k3: { actual: ({ old, new: current }: { old: readonly number[]; new: readonly number[] }) => meanK3(old, current) },
  grpo_update: { actual: updated },
};

function rewarded({ text, ground_truth, strict }: Rewarded): unknown {
  const final = finalAnswer(text);
  const [format, answer] = [formatReward(text, { strict }), answerReward(final, ground_truth)];
  return { final_answer: final, format, answer, reward: format + answer };
}

function configured({ given, env }: { given: Record<string, unknown>; env: Record<string, string> }): unknown {
  const parsed = parseConfig(given, env);
  return parsed.ok ? { config: parsed.config, warnings: parsed.warnings.map(({ key }) => key) } : { error: parsed.key };
}

function read({ json }: { json: unknown }): unknown {
  try {
    const rows = rowsFromJson(json);
    return { queries: rows.map(({ query }) => query), ground_truths: rows.map(({ ground_truth }) => ground_truth) };
  } catch (error) {
    if (error instanceof ConfigError) return { error: 'ValueError' };
    throw error;
  }
}

/** A core rollout is built first, as the loop fills one; the view is made of it, written and read back. */
function viewed({ query, prompt_ids, pieces, reward, advantage }: Viewed): unknown {
  const tokens = new TokenBuffer();
  tokens.appendGiven('prompt', Int32Array.from(prompt_ids));
  const texts = [...prompt_ids.map(() => ''), ...pieces.flatMap((piece) => piece.texts)];
  for (const piece of pieces) {
    const ids = Int32Array.from(piece.ids);
    let end = 0;
    const textEnds = Int32Array.from(piece.texts, (text) => (end += text.length));
    const sample = { text: piece.texts.join(''), tail: '', ids, logProbs: Float64Array.from(piece.log_probs ?? []), textEnds };
    if (piece.kind === 'model') tokens.commit(sample, sample.text.length, 0, { keepsEnd: true });
    else tokens.appendGiven('observation', ids);
  }
  const segments = pieces.map(({ kind, texts: own }) => ({ kind, text: own.join('') }));
  const prompt = [{ role: 'user' as const, content: query }];
  const rollout: ViewedRollout = {
    prompt,
    segments,
    branches: [{ parent: null, fork: null, prompt, tools: [], segments, generations: [], tokens }],
    reward,
  };
  const view = toTrajectory(rollout, { advantage, tokenText: (_id, position) => texts[position]! });
  if (!view.token_steps.every(Object.isFrozen)) throw new Error('A token step is not frozen.');
  const json: unknown = JSON.parse(JSON.stringify(view));
  if (!isSame(trajectoryFromJson(json), json)) throw new Error('Reading the JSON back gives another view.');
  return json;
}

function meanK3(old: readonly number[], current: readonly number[]): number {
  return old.reduce((sum, logProb, t) => sum + klEstimate('k3', current[t]! - logProb), 0) / old.length;
}

/** Trajectories whose lengths differ are left out, as the specification has it. */
function updated({ trajectories, clip_epsilon, beta }: Stepped): unknown {
  const used = trajectories.filter((t) => t.old.length === t.new.length);
  const current = used.map((t) => t.new);
  const offsets = offsetsOf(current);
  const loss = ratioLoss({
    ratio: 'token',
    objective: { kind: 'clip', clipLow: clip_epsilon, clipHigh: clip_epsilon, dualClip: null },
    logRatioClamp: null,
    correction: null,
    aggregation: { kind: 'sequence_mean', within: 'mean', countEmpty: false },
    kl: { estimator: 'k3', coefficient: beta, clamp: null, against: 'old' },
  });
  const advantages = Float64Array.from(used.flatMap((t) => t.new.map(() => t.advantage)));
  const batch = { offsets, logProbs: flat(current), oldLogProbs: flat(used.map((t) => t.old)), advantages };
  const { loss: value, gradient } = loss.evaluate(batch, countTokens(offsets));
  const rows = rowsOf(gradient, current);
  return {
    loss: value,
    kl_div: used.length === 0 ? 0 : used.reduce((sum, t) => sum + meanK3(t.old, t.new), 0) / used.length,
    used: used.length,
    gradient: trajectories.map((t) => (used.includes(t) ? rows[used.indexOf(t)]! : null)),
  };
}
