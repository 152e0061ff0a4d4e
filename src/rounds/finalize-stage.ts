/** The best demonstrations of every prompt as rows for `vf-train --sft`, and the golden trajectory of each (DDAI, finalize_success_only_sft_dataset). Pure. */
import { compareTexts } from './compare-texts.ts';
import type { DemonstrationRow } from './demonstration-rows.ts';
import { actionsOf, bestRows, systemErrors } from './messages-v1.ts';
import { isSpoiled } from './rewrite-stage.ts';
import { exactFields } from './row-files.ts';
import type { StageResult } from './stage.ts';

export interface FinalizeOptions {
  /** Most rows of a prompt. @default 4 (DDAI) */
  readonly most?: number;
  /** Most failed tools in a row. @default 0 */
  readonly systemErrors?: number;
  readonly output: string;
  readonly golden: string;
}

export function finalizeStage(rows: readonly DemonstrationRow[], options: FinalizeOptions): StageResult {
  const { most = 4, systemErrors: mostErrors = 0, output, golden } = options;
  const whole = rows.filter(({ messages }) => systemErrors(messages) <= mostErrors);
  // DDAI leaves them out after its rewrite, which is optional here.
  const clean = whole.filter((row) => !isSpoiled(row));
  // By uid, so that the order of files and lines changes nothing.
  const sorted = clean.toSorted((a, b) => compareTexts(a.uid, b.uid));
  const best = bestRows(sorted, most);
  const prompts = Map.groupBy(best, ({ prompt }) => prompt);
  return {
    rule: { most, system_errors: mostErrors, order: ['ndcg', 'searches', 'boxes', 'length'] },
    counts: {
      rows: rows.length,
      with_system_errors: rows.length - whole.length,
      spoiled: whole.length - clean.length,
      prompts: prompts.size,
      beyond_the_most: clean.length - best.length,
      kept: best.length,
    },
    outputs: [
      { name: output, lines: best.map(({ uid, messages }) => JSON.stringify({ uid, format_version: 'v1', messages: JSON.stringify(messages) })) },
      { name: golden, lines: [...prompts].map(([prompt, [first]]) => JSON.stringify(goldenTrajectory(prompt, first!))) },
    ],
  };
}

/** The queries, pages and crops, the end of the rollout, and its result. */
function goldenTrajectory(prompt: string, { uid, messages, line }: DemonstrationRow) {
  const { queries, boxes } = actionsOf(messages);
  const images = messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.flatMap((part) => ('image' in part ? [part.image] : [])),
  );
  const turns = messages.filter(({ role }) => role === 'assistant').length;
  const fields = exactFields(line);
  const known = (key: string) => fields[key] ?? null;
  return {
    prompt_uid: prompt,
    uid,
    question: known('question'),
    queries,
    pages: known('pages'),
    images,
    boxes,
    stop_turn: turns,
    answer: known('answer'),
    reference: known('reference'),
    judge: known('judge'),
    ndcg: known('ndcg'),
  };
}
