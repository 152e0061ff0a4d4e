/** Adapters for DDAI's curation and distillation: buckets, focused sets, demonstrations and the guards of a rewrite. */
import { bucketPrompts, hardPrompts, promptMeans } from '../../src/rounds/buckets.ts';
import { demonstration, demonstrationId } from '../../src/rounds/demonstration.ts';
import { bestRows, promptOf, systemErrors } from '../../src/rounds/messages-v1.ts';
import { keepRollouts } from '../../src/rounds/rare-success.ts';
import { changesOutside, claimsSight, guardedThink, namesAction, thinksOf, withThinks } from '../../src/rounds/think-blocks.ts';
import { upstreamRollouts } from '../../src/rounds/upstream-trace.ts';
import type { MessageV1 } from '../../src/schemas/messages-v1.ts';
import type { Adapter } from './vectors.ts';

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
        if (typeof messages === 'string' || (options.drop_system_errors === true && systemErrors(messages) > 0)) return [];
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
      rows.map((row) => ({ ...row, prompt: promptOf(row.uid), ndcg: row.ndcg ?? null })),
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
    const outside = written.map(({ before, after }) =>
      changesOutside(before.content as string, after.content as string) ? 'Non-think text changed' : null,
    );
    if (drops && written.some(({ before }) => thinksOf(before.content as string).some(namesAction))) return { outside, dropped: true };
    const messages = pairs.map(({ before, after }) => {
      if (before.role !== 'assistant') return after;
      const [was, is] = [thinksOf(before.content as string), thinksOf(after.content as string)];
      const guarded = is.map((think, i) => guardedThink(was[i]!, think, { claims }));
      if (guarded.every((think, i) => think === is[i])) return after;
      // Upstream writes the tags of what it reverts in lower case; ours keeps them, because they are not part of a think.
      const content = withThinks(after.content as string, guarded).replaceAll(/<\/?think>/gi, (tag) => tag.toLowerCase());
      return { ...after, content };
    });
    return { outside, messages };
  },
};

const thinkGuards: Adapter = {
  actual: ({ text }: { text: string }) => ({ claim: claimsSight(text), action_tag: namesAction(text) }),
};

export const visualRoundsAdapters: Readonly<Record<string, Adapter>> = {
  visual_buckets: buckets,
  visual_focus: focus,
  visual_rewrite: rewrite,
  visual_sft_finalize: sftFinalize,
  visual_sft_rows: sftRows,
  visual_think_guards: thinkGuards,
};
