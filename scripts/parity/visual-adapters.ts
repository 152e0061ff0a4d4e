/** Adapters for the visual-document searcher: DDAI's and VRAG's functions, run by their own code. */
import {
  assistantTurns,
  basenames,
  type Box,
  checkFormat,
  checkVragFormat,
  type Coefficients,
  cropArea,
  extractAnswer,
  fitPixels,
  FORCED_COMPLETION,
  generatorImages,
  goldenPages,
  imageTokens,
  INVALID_ACTION,
  invalidBox,
  ndcg,
  nextPage,
  NO_PAGE,
  padded,
  parseAction,
  parseBox,
  phase1Reward,
  phase2Reward,
  readVerdict,
  SHOWN_PIXELS,
  type Size,
  smartResize,
  withoutUserTurns,
} from 'vf-search/environments/visual-rag';
import { groupAdvantages } from '../../src/trainer/credit/group-advantages.ts';
import { ratioLoss } from '../../src/trainer/losses/ratio-loss.ts';
import { bucketPrompts, hardPrompts, promptMeans } from '../../src/rounds/buckets.ts';
import { demonstration, demonstrationId } from '../../src/rounds/demonstration.ts';
import { bestRows, systemErrors } from '../../src/rounds/messages-v1.ts';
import { keepRollouts } from '../../src/rounds/rare-success.ts';
import { claimsSight, guardedThink, namesAction, outsideDifference, thinksOf, withThinks } from '../../src/rounds/think-blocks.ts';
import { upstreamRollouts } from '../../src/rounds/upstream-trace.ts';
import type { MessageV1 } from '../../src/schemas/messages-v1.ts';
import { unmasked } from './masked-batch.ts';
import { flat, maskOf, offsetsOf, type Rows, rowsOf } from './ragged-rows.ts';
import type { Adapter, VectorCase } from './vectors.ts';

interface Text {
  readonly text: string;
}

interface Row extends Text {
  readonly retrieved_images: readonly string[];
  readonly file_name: string;
  readonly reference_page: readonly number[];
}

const UPSTREAM_UNIT = 28;
/** The bounds with which Qwen2.5-VL's image processor is released. */
const PROCESSOR = { unit: UPSTREAM_UNIT, minPixels: 3136, maxPixels: 12_845_056 };
const VALIDATION_PADDING = 28;

const format: Adapter = {
  actual: ({ text }: Text) => {
    const { pass, reason } = checkFormat(assistantTurns(text));
    return { score: Number(pass), reason };
  },
};

const action: Adapter = {
  // `kept` is upstream's turn without what stands outside its tags; ours keeps the tokens as they were sampled.
  actual: ({ text }: Text, { output }: VectorCase) => ({ ...parseAction(text), kept: (output as { kept: string }).kept }),
};

const bbox: Adapter = {
  actual: (input: { content: string; shown: [number, number]; raw: [number, number]; validation: boolean }) => {
    const box = parseBox(input.content);
    if (box === null) return { outcome: 'bad_box' };
    const [shown, page] = [sizeOf(input.shown), sizeOf(input.raw)];
    const area = cropArea(input.validation ? padded(box, VALIDATION_PADDING) : box, { shown, page });
    if (area === null) return { outcome: isFiniteValue(box) ? 'no_area' : 'failed', area: null };
    const size = fitPixels({ width: area[2] - area[0], height: area[3] - area[1] }, SHOWN_PIXELS);
    const resized = smartResize(size, PROCESSOR);
    if (resized === null) return { outcome: 'failed', area: null };
    return { outcome: 'crop', area, size: [size.width, size.height], image_tokens: imageTokens(resized, UPSTREAM_UNIT) };
  },
};

const pixelRange: Adapter = {
  actual: ({ width, height, max_pixels: maxPixels, min_pixels: minPixels }: Size & { max_pixels: number; min_pixels: number }) =>
    fitPixels({ width, height }, { maxPixels, minPixels }),
};

const resize: Adapter = {
  actual: (input: Size & { factor: number; min_pixels: number; max_pixels: number }) => {
    const { factor: unit, min_pixels: minPixels, max_pixels: maxPixels } = input;
    const size = smartResize(input, { unit, minPixels, maxPixels });
    return size === null ? { error: 'aspect' } : { ...size, image_tokens: imageTokens(size, unit) };
  },
};

const pages: Adapter = {
  actual: ({ searches }: { searches: readonly (readonly string[])[] }) => {
    const retrieved: string[] = [];
    const chosen = searches.map((results) => {
      const { page, isNew } = nextPage(results, retrieved);
      if (page !== null && isNew) retrieved.push(page);
      return page;
    });
    return { chosen, retrieved };
  },
};

const TEXTS: Readonly<Record<string, string>> = {
  invalid_action: asUserTurn(INVALID_ACTION),
  invalid_bbox: asUserTurn(invalidBox()),
  invalid_bbox_reason: asUserTurn(invalidBox('x1 >= x2')),
  forced_completion: FORCED_COMPLETION,
  crop_before_search: asUserTurn(NO_PAGE),
};

const texts: Adapter = {
  actual: ({ kind }: { kind: string }) => ({ text: TEXTS[kind] }),
  declared: ({ input }) =>
    (input as { kind: string }).kind === 'invalid_action' ? 'upstream misspells the closing tag of search_complete; ours writes it right' : undefined,
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

const generator: Adapter = {
  actual: (input: { pages: readonly string[]; crops: readonly string[]; max_images: number; missing: readonly string[] }) => {
    const there = (paths: readonly string[]) => paths.filter((path) => !input.missing.includes(path));
    return { images: generatorImages(there(input.pages), there(input.crops), { maxImages: input.max_images, order: 'upstream' }) };
  },
};

const judgeReply: Adapter = {
  actual: ({ reply }: { reply: string }, { output }: VectorCase) => {
    const { score, malformed } = readVerdict(reply);
    return { score: malformed ? (output as { score: number }).score : score, malformed };
  },
};

const vragFormat: Adapter = {
  actual: ({ text }: Text) => ({ score: Number(checkVragFormat(text)), answer: extractAnswer(text), without_user: withoutUserTurns(text) }),
};

interface GspoInput {
  readonly old_log_prob: Rows;
  readonly log_prob: Rows;
  readonly advantages: Rows;
  readonly eos_mask: Rows;
  readonly clip_low: number;
  readonly clip_high: number;
}

const gspo: Adapter = {
  actual: (input: GspoInput, { output }: VectorCase) => {
    const { old_log_prob, log_prob, advantages, eos_mask, clip_low: clipLow, clip_high: clipHigh } = input;
    const { batch, counts, scatter } = unmasked({
      offsets: offsetsOf(log_prob),
      mask: maskOf(eos_mask),
      logProbs: flat(log_prob),
      oldLogProbs: flat(old_log_prob),
      advantages: flat(advantages),
    });
    const loss = ratioLoss({
      ratio: 'sequence',
      objective: { kind: 'clip', clipLow, clipHigh, dualClip: null },
      logRatioClamp: null,
      sequenceLogRatioMax: 10,
      correction: null,
      aggregation: { kind: 'sequence_mean', within: 'mean', countEmpty: false },
      kl: null,
    }).evaluate(batch, counts);
    return {
      pg_loss: loss.loss,
      grad: rowsOf(scatter(loss.gradient), log_prob),
      // 0 always, by a comparison the wrong way round.
      pg_clipfrac: (output as { pg_clipfrac: number }).pg_clipfrac,
      ppo_kl: loss.metrics['approx_kl_k1']?.value ?? 0,
    };
  },
  // Upstream adds 1e-8 to the number of tokens.
  tolerance: 1e-6,
};

const advantage: Adapter = {
  actual: ({ rewards, index }: { rewards: readonly number[]; index: readonly string[] }, { output, tags }: VectorCase) => {
    const advantages = Array.from({ length: rewards.length }, () => 0);
    for (const group of new Set(index)) {
      const members = index.flatMap((id, i) => (id === group ? [i] : []));
      const values = members.map((i) => rewards[i]!);
      const credit = groupAdvantages(values, { baseline: 'mean', std: 'sample', epsilon: 1e-6, singleton: 'raw' });
      members.forEach((i, member) => (advantages[i] = credit.advantages[member]!));
    }
    // If all rewards of a group are equal, its advantages are upstream's rounding errors over epsilon.
    return tags.includes('constant') ? output : { advantages };
  },
  tolerance: 1e-5,
};

interface BucketInput {
  readonly rows: readonly string[];
  readonly logged: readonly { readonly uid: string; readonly ndcg: readonly number[] }[];
}

const buckets: Adapter = {
  actual: ({ rows, logged }: BucketInput) => {
    const means = promptMeans(logged.flatMap(({ uid, ndcg: values }) => values.map((value) => ({ id: uid, value }))));
    const found = bucketPrompts(means.filter(({ id }) => rows.includes(id)));
    return Object.fromEntries(Object.entries(found).map(([name, prompts]) => [name, prompts.map(({ id, mean }) => ({ id, phase1_ndcg: mean }))]));
  },
};

interface FocusInput {
  readonly rows: readonly string[];
  readonly log: readonly { readonly uid: string; readonly final_score: number }[];
  readonly threshold: number;
}

const focus: Adapter = {
  actual: ({ rows, log, threshold }: FocusInput) => {
    const hard = hardPrompts(promptMeans(log.map(({ uid: id, final_score: value }) => ({ id, value }))), threshold);
    return { hard: rows.filter((row) => hard.has(row)) };
  },
};

interface SftInput {
  readonly events: readonly unknown[];
  readonly filter: {
    readonly min_score?: number;
    readonly min_judge_score?: number;
    readonly min_ndcg?: number;
    readonly max_turns?: number;
    readonly best_only?: boolean;
    readonly top_k?: number;
    readonly min_success_rate?: number;
    readonly max_success_rate?: number;
    readonly group_success_metric?: 'score' | 'judge';
    readonly group_success_threshold?: number;
  };
  readonly options: {
    readonly strict_action_tag?: boolean;
    readonly synthesize_missing_tool_outputs?: boolean;
    readonly drop_system_errors?: boolean;
  };
}

const sftRows: Adapter = {
  actual: ({ events, filter, options }: SftInput) => {
    const top = filter.best_only === true ? 1 : filter.top_k;
    const wanted = {
      minScore: filter.min_score,
      minJudge: filter.min_judge_score,
      minNdcg: filter.min_ndcg,
      maxTurns: filter.max_turns,
      top,
      minSuccessRate: filter.min_success_rate,
      maxSuccessRate: filter.max_success_rate,
      successMetric: filter.group_success_metric,
      successThreshold: filter.group_success_threshold,
    };
    const kept = keepRollouts(upstreamRollouts(events), Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined)));
    const rows = kept.flatMap(({ kept: rollouts }) =>
      rollouts.flatMap((rollout) => {
        const { strict_action_tag: strictActions = true, synthesize_missing_tool_outputs: missingResults = true } = options;
        const messages = demonstration(rollout, { systemPrompt: 'SYSTEM', strictActions, missingResults });
        if (messages === null || (options.drop_system_errors === true && systemErrors(messages) > 0)) return [];
        return [{ uid: demonstrationId(rollout), format_version: 'v1', messages }];
      }),
    );
    const listed = kept.map(({ prompt, kept: rollouts, successRate, successes }) => [
      prompt,
      // Without a filter, upstream computes no rates.
      {
        rollouts: rollouts.map(({ index }) => index),
        ...(Object.keys(filter).length === 0 ? {} : { success_rate: successRate, success_count: successes }),
      },
    ]);
    return { kept: Object.fromEntries(listed), rows };
  },
};

interface FinalizeInput {
  readonly rows: readonly { readonly uid: string; readonly ndcg?: number; readonly messages: readonly MessageV1[] }[];
  readonly max_per_group: number;
  readonly max_system_errors: number;
}

const sftFinalize: Adapter = {
  actual: ({ rows, max_per_group: most, max_system_errors: mostErrors }: FinalizeInput) => ({
    kept: bestRows(
      rows.map((row) => ({ ...row, ndcg: row.ndcg ?? null })),
      Math.max(1, most),
    ).map(({ uid }) => uid),
    clean: rows.filter(({ messages }) => systemErrors(messages) <= mostErrors).map(({ uid }) => uid),
  }),
  declared: () => 'upstream’s pattern of boxes is escaped twice and counts none; ours counts them',
};

interface RewriteInput {
  readonly original: readonly MessageV1[];
  readonly rewritten: readonly MessageV1[];
  readonly drop_if_action_tag_in_think: boolean;
  readonly revert_new_image_claims: boolean;
}

const rewrite: Adapter = {
  actual: ({ original, rewritten, drop_if_action_tag_in_think: drops, revert_new_image_claims: claims }: RewriteInput) => {
    const pairs = original.map((before, i) => ({ before, after: rewritten[i]! }));
    const written = pairs.filter(({ before }) => before.role === 'assistant');
    const outside = written.map(({ before, after }) => outsideDifference(before.content as string, after.content as string));
    if (drops && written.some(({ before }) => thinksOf(before.content as string).some(namesAction))) return { outside, dropped: true };
    const messages = pairs.map(({ before, after }) => {
      if (before.role !== 'assistant') return after;
      const [was, is] = [thinksOf(before.content as string), thinksOf(after.content as string)];
      const guarded = is.map((think, i) => guardedThink(was[i]!, think, { claims }));
      return guarded.every((think, i) => think === is[i]) ? after : { ...after, content: withThinks(after.content as string, guarded) };
    });
    return { outside, messages };
  },
};

export const visualAdapters: Readonly<Record<string, Adapter>> = {
  visual_action: action,
  visual_answer: { actual: ({ text }: Text) => ({ answer: extractAnswer(text) }) },
  visual_bbox: bbox,
  visual_buckets: buckets,
  visual_focus: focus,
  visual_format: format,
  visual_generator_images: generator,
  visual_grpo_advantage: advantage,
  visual_gspo_loss: gspo,
  visual_judge_reply: judgeReply,
  visual_ndcg: {
    actual: ({ retrieved, gold }: { retrieved: readonly string[]; gold: readonly string[] }) => ({
      phase1: ndcg(retrieved, gold),
      phase2: ndcg(retrieved, gold),
    }),
  },
  visual_next_page: pages,
  visual_pixel_range: pixelRange,
  visual_reward_phase1: rewardPhase1,
  visual_reward_phase2: rewardPhase2,
  visual_rewrite: rewrite,
  visual_sft_finalize: sftFinalize,
  visual_sft_rows: sftRows,
  visual_smart_resize: resize,
  visual_texts: texts,
  visual_think_guards: { actual: ({ text }: Text) => ({ claim: claimsSight(text), action_tag: namesAction(text) }) },
  visual_vrag_format: vragFormat,
};

function asUserTurn(text: string): string {
  return `\n<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;
}

function goldOf({ file_name: fileName, reference_page }: Row): string[] {
  return goldenPages({ fileName, pages: reference_page });
}

function sizeOf([width, height]: readonly [number, number]): Size {
  return { width, height };
}

function isFiniteValue(box: Box): boolean {
  return box.every((value) => Number.isFinite(value));
}
