/** Adapters for the scores of the visual-document searcher: what DDAI's generator is shown, its judge's replies, NDCG and both rewards. */
import {
  assistantTurns,
  basenames,
  checkFormat,
  type Coefficients,
  extractAnswer,
  generatorImages,
  goldenPages,
  ndcg,
  phase1Reward,
  phase2Reward,
  readVerdict,
} from 'vf-search/environments/visual-rag';
import type { Adapter } from './vectors.ts';

interface Row {
  readonly text: string;
  readonly retrieved_images: readonly string[];
  readonly file_name: string;
  readonly reference_page: readonly number[];
}

const generator: Adapter = {
  actual: (input: { pages: readonly string[]; crops: readonly string[]; max_images: number; missing: readonly string[] }) => {
    const there = (paths: readonly string[]) => paths.filter((path) => !input.missing.includes(path));
    return { images: generatorImages(there(input.pages), there(input.crops), { maxImages: input.max_images, order: 'upstream' }) };
  },
};

const judgeReply: Adapter = {
  actual: ({ reply }: { reply: string }) => readVerdict(reply),
};

const pageNdcg: Adapter = {
  actual: ({ retrieved, gold }: { retrieved: readonly string[]; gold: readonly string[] }) => ({
    phase1: ndcg(retrieved, gold),
    phase2: ndcg(retrieved, gold),
  }),
};

const rewardPhase1: Adapter = {
  actual: (row: Row) => {
    const { pass } = checkFormat(assistantTurns(row.text));
    const [retrieved, gold] = [basenames(row.retrieved_images), goldOf(row)];
    // Upstream leaves the NDCG at 0 where the format fails.
    const value = pass ? ndcg(retrieved, gold) : 0;
    return { format: Number(pass), retrieved, gold, ndcg: value, reward: phase1Reward({ format: pass, ndcg: value }) };
  },
};

const rewardPhase2: Adapter = {
  actual: ({ coefficients, members }: { coefficients: Coefficients; members: readonly (Row & { judge: number })[] }) => {
    const isGated = coefficients.format > 0;
    const scored = members.map((member) => {
      const pass = !isGated || checkFormat(assistantTurns(member.text)).pass;
      const value = ndcg(basenames(member.retrieved_images), goldOf(member));
      const judge = pass ? member.judge : 0;
      return {
        answer: extractAnswer(member.text) ?? 'Please Judge False',
        format: Number(pass),
        ndcg: value,
        judge,
        reward: phase2Reward({ format: pass, ndcg: value, judge }, coefficients),
      };
    });
    const mean = (value: (member: (typeof scored)[number]) => number) => scored.reduce((sum, member) => sum + value(member), 0) / scored.length;
    return {
      judged: scored.flatMap((member, i) => (member.format > 0 ? [i] : [])),
      members: scored,
      means: {
        'reward/ndcg_mean': mean((member) => member.ndcg),
        'reward/judge_score_mean': mean((member) => member.judge),
        'reward/format_score_mean': mean((member) => member.format),
        'reward/format_pass_rate': mean((member) => member.format),
        'reward/final_score_mean': mean((member) => member.reward),
      },
    };
  },
};

export const visualScoreAdapters: Readonly<Record<string, Adapter>> = {
  visual_generator_images: generator,
  visual_judge_reply: judgeReply,
  visual_ndcg: pageNdcg,
  visual_reward_phase1: rewardPhase1,
  visual_reward_phase2: rewardPhase2,
};

function goldOf({ file_name: fileName, reference_page }: Row): string[] {
  return goldenPages({ fileName, pages: reference_page });
}
