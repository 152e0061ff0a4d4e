/** A searcher over pages of the test's own: three pages of 1200 × 800, shown at 600 × 400, and a retriever that finds what the test says. */
import type { Passage, Retriever } from 'vf-search';
import type { Models } from 'vf-search/environment-kit';
import { openRoleModels, type Rollout, runRollouts } from 'vf-search/rollouts';
import { type DocumentPage, PageSource, VisualRagEnv, type VisualRagOptions, type VisualRow } from 'vf-search/environments/visual-rag';
import { toVisualRow } from '../../../environments/visual-rag/rows.ts';
import { ScriptedClient, type ScriptedOptions } from '../../../src/clients/scripted.ts';

export const think = (action: string) => `<think>t</think>\n${action}`;
export const search = (query: string) => think(`<search>${query}</search>`);
export const box = (...sides: readonly unknown[]) => think(`<bbox>[${sides.join(', ')}]</bbox>`);
export const COMPLETE = think('<search_complete>true</search_complete>');

/** The value is 12 pixels high on the page, and 6 where the page is shown at half its size. */
export const PAGES: ReadonlyMap<string, DocumentPage> = new Map(
  ['report_1', 'report_2', 'other_1'].map((id, i) => [
    id,
    {
      id,
      width: 1200,
      height: 800,
      words: [
        { text: 'Revenue', box: [100, 100, 300, 140], line: 0 },
        { text: `${i + 1}00`, box: [320, 110, 360, 122], line: 0 },
        { text: 'Staff', box: [100, 600, 300, 640], line: 1 },
        { text: '7', box: [320, 610, 360, 622], line: 1 },
      ],
    },
  ]),
);

export const ROW = {
  id: 'q1',
  extra_info: { file_name: 'report.pdf', reference_page: [1], question: 'What was the revenue?' },
  reward_model: { ground_truth: '100' },
};

/** Finds the named pages for every query, or what the function gives. */
export function finds(results: readonly string[] | ((query: string) => readonly string[])): Retriever {
  const found = typeof results === 'function' ? results : () => results;
  return {
    name: 'test',
    search: async (queries) => queries.map((query) => found(query).map((id): Passage => ({ id, contents: id }))),
    close: async () => {},
  };
}

export function environmentWith(options: Partial<VisualRagOptions> = {}): VisualRagEnv {
  return new VisualRagEnv({
    rows: [rowOf()],
    retriever: finds(['report_1', 'report_2', 'other_1']),
    pages: new PageSource({ sidecar: PAGES }),
    shownPixels: { minPixels: 240_000, maxPixels: 240_000 },
    align: 0,
    ...options,
  });
}

export function rowOf(change: Readonly<Record<string, unknown>> = {}): VisualRow {
  return toVisualRow({ ...ROW, ...change }, 'row 1', 'ocr');
}

export interface PlayAll {
  /** Replies by role. @default the built-in ones */
  readonly models?: Partial<Models>;
  readonly client?: Partial<ScriptedOptions>;
  readonly rollouts?: number;
}

/** Plays and scores rollouts of the environment's first row. */
export async function playAll(
  environment: VisualRagEnv,
  turns: ScriptedOptions['turns'],
  { models = {}, client, rollouts = 1 }: PlayAll = {},
): Promise<Rollout[]> {
  const played = Object.fromEntries(
    Object.entries(environment.roles).map(([role, { builtin }]) => [role, { model: models[role] ?? builtin!, maxRetries: 0, baseDelayMs: 1 }]),
  );
  await using roles = await openRoleModels(played);
  const done: Rollout[] = [];
  const run = runRollouts([{ row: environment.eval.at(0), indices: Array.from({ length: rollouts }, (_, i) => i) }], {
    environment,
    client: new ScriptedClient({ tokenizer: 'code-points', ...client, turns }),
    models: roles,
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    maxConcurrent: 8,
    timeoutMs: null,
    seed: 0,
    maxReplays: 0,
    onRollout: (rollout) => void done.push(rollout),
    signal: new AbortController().signal,
  });
  for await (const _ of run);
  return done.toSorted((a, b) => a.index - b.index);
}

export async function playOne(environment: VisualRagEnv, turns: readonly string[], options: PlayAll = {}): Promise<Rollout> {
  return (await playAll(environment, turns, options))[0]!;
}

export function observations({ segments }: Rollout): string[] {
  return segments.filter(({ kind }) => kind !== 'model').map(({ text }) => text);
}
