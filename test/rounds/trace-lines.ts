/** Lines of a trace.jsonl, for tests: a rollout that searches, cuts out a part and completes. */

export interface SomeRollout {
  readonly prompt: string;
  readonly index: number;
  readonly reward?: number | null;
  /** @default 1; null for a rollout that no judge scored */
  readonly judge?: number | null;
  /** The metric of a run that asks a judge. @default none */
  readonly judgeFailed?: number;
  readonly ndcg?: number;
  readonly format?: number;
  readonly run?: string;
  readonly step?: number | null;
  readonly play?: number;
  readonly evaluation?: true;
  /** Pages that the searches show. @default the golden one */
  readonly pages?: readonly string[];
  readonly think?: string;
  readonly answer?: string;
  /** The box is refused. */
  readonly badBox?: true;
}

export function rolloutLines(rollout: SomeRollout): string[] {
  const { prompt, index, reward = 1, judge = 1, ndcg = 1, format = 1, run = 'run-1', step = 1, play = 1000, evaluation, think = 'I look.' } = rollout;
  const golden = `${prompt}_1`;
  const { pages = [golden], answer = 'an answer', badBox, judgeFailed } = rollout;
  const place = { run_id: run, step, group_id: prompt, rollout_id: `${prompt}/${index}`, play, ...(evaluation && { evaluation }) };
  const turn = (n: number, text: string) => ({ event: 'model.turn', turn: n, text, finish: 'stop', tokens: 9 });
  const searches = pages.flatMap((page, i) => [
    turn(i, `<think>${think}</think>\n<search>find ${page}</search>`),
    { event: 'search.request', turn: i, query: `find ${page}` },
    {
      event: 'search.response',
      turn: i,
      query: `find ${page}`,
      results: [page, 'other_9'],
      page,
      size: [728, 560],
      ms: 10 * (i + 1),
      text: `Page ${page}`,
    },
  ]);
  const n = pages.length;
  const crop = badBox === undefined ? { page: pages.at(-1), area: [0, 0, 9, 9], size: [448, 448], text: 'Crop' } : { problem: 'no area' };
  const cut =
    n === 0 ? [] : [turn(n, `<think>${think}</think>\n<bbox>[1, 2, 30, 40]</bbox>`), { event: 'crop', turn: n, box: '[1, 2, 30, 40]', ...crop }];
  const events = [
    ...searches,
    ...cut,
    turn(n + 1, `<think>${think}</think>\n<search_complete>true</search_complete>`),
    { event: 'generator', turn: null, role: 'generator', model: 'g', text: answer, ms: 500, wait_ms: 20, attempts: 1 },
    ...(judge === null
      ? []
      : [{ event: 'judge', turn: null, role: 'judge', model: 'j', text: `{"score": ${judge}}`, ms: 40, wait_ms: 0, attempts: 1 }]),
  ];
  const last = {
    event: 'reward',
    turn: null,
    rollout_index: index,
    reward,
    metrics:
      reward === null
        ? {}
        : { ...(judge === null ? {} : { judge }), ...(judgeFailed === undefined ? {} : { judge_failed: judgeFailed }), ndcg, format_pass: format },
    ...(reward === null ? { error: { type: 'ModelError', message: 'down' } } : {}),
    question: `What is ${prompt}?`,
    reference: `the ${prompt}`,
    info: { question: `What is ${prompt}?`, golden_pages: [golden] },
    prompt: [
      { role: 'system', content: 'Search.' },
      { role: 'user', content: `Question: What is ${prompt}?` },
    ],
    lines: events.length + 1,
  };
  return [...events, last].map((event, seq) => JSON.stringify({ ts: play / 1000 + seq, ...place, seq, ...event }));
}

export function traceText(rollouts: readonly SomeRollout[]): string {
  const start = { ts: 1, event: 'run.start', run_id: 'run-1', step: null, group_id: null, rollout_id: null, turn: null };
  return [JSON.stringify(start), ...rollouts.flatMap(rolloutLines)].map((line) => `${line}\n`).join('');
}

/** Rows in DDAI's columns. */
export function rowsText(ids: readonly string[]): string {
  return ids
    .map(
      (id) =>
        `${JSON.stringify({ id, extra_info: { question: `What is ${id}?`, file_name: id, reference_page: [1] }, reward_model: { ground_truth: `the ${id}` } })}\n`,
    )
    .join('');
}
