/** What every `ViewSource` does, over the runs of `writeSourceRuns`: from files, over HTTP, and out of an exported file. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { ViewSource } from '../../src/viewing/view-wire.ts';
import { writeEvaluation, writeTraining } from '../viewing/written-runs.ts';

/** Columns of a rollout whose model thinks outside its text and calls a tool. */
const THOUGHTFUL = {
  completion: [
    { role: 'assistant', content: '', tool_calls: [{ id: 'c', name: 'find', arguments: '{}' }] },
    { role: 'tool', content: 'found', tool_call_id: 'c' },
    { role: 'assistant', content: 'plain' },
  ],
  segments: [
    { kind: 'model', text: '<tool_call>', reasoning: 'I look it up.' },
    { kind: 'observation', text: 'found' },
    { kind: 'model', text: 'plain', reasoning: 'Now I know.' },
  ],
  num_turns: 2,
  guessed_stops: 1,
  ignored_stops: 2,
};

const JUDGED = {
  schema_version: 1,
  rollout_id: 'g2/0',
  asked: [
    { role: 'judge', model: 'j', usage: {}, finish: 'stop', ms: 1, wait_ms: 0, attempts: 1, messages: [], text: '1', reasoning: 'It is right.' },
  ],
};

export function writeSourceRuns(root: string): void {
  const rows = [0, 1, 2, 3].map((i) => ({
    group: `g${i}`,
    reward: i === 3 ? null : i / 2,
    question: `question ${i}?`,
    response: i === 1 ? 'Éclair' : 'plain',
    ...(i === 2 ? { more: THOUGHTFUL } : {}),
  }));
  writeEvaluation(join(root, 'first'), rows);
  writeEvaluation(
    join(root, 'second'),
    rows.map((row) => ({ ...row, reward: row.group === 'g0' ? 1 : row.reward })),
  );
  writeFileSync(join(root, 'first', 'asked.jsonl'), `${JSON.stringify(JUDGED)}\n`);
  writeTraining(join(root, 'train'));
}

export function viewSourceContract(open: () => ViewSource): void {
  const results = { run: 'first', set: 'results' };

  it('lists runs with what they are', async () => {
    const { runs } = await open().runs();
    expect(Object.fromEntries(runs.map(({ id, kind, state, problems }) => [id, [kind, state, problems]]))).toEqual({
      first: ['evaluation', 'complete', []],
      second: ['evaluation', 'complete', []],
      train: ['training', 'complete', []],
    });
  });

  it('gives an evaluation its summary, and a training run its sets and held-out rows', async () => {
    const source = open();
    const evaluation = await source.run('first');
    expect(evaluation).toMatchObject({
      kind: 'evaluation',
      summary: { rollouts: { recorded: 4, finished: 3, errored: 1 }, reward: { value: 0.5, n: 3 } },
    });
    const training = await source.run('train');
    expect(training.sets.map(({ id }) => id).toSorted()).toEqual(['evaluation/0', 'evaluation/2', 'step/1', 'step/2']);
    expect(training).toMatchObject({
      held_out: [
        {
          group: 'h',
          rewards: [
            { step: 0, reward: 0 },
            { step: 2, reward: 1 },
          ],
        },
        { group: 'k' },
      ],
    });
  });

  it('sorts, filters, searches and pages the rollouts of a set', async () => {
    const source = open();
    const groups = async (query: object) => (await source.rollouts({ ...results, ...query })).rows.map(({ group }) => group);
    expect(await groups({})).toEqual(['g0', 'g1', 'g2', 'g3']);
    expect(await groups({ sort: 'reward', descending: true })).toEqual(['g2', 'g1', 'g0', 'g3']);
    expect(await groups({ sort: 'metric:em' })).toEqual(['g0', 'g1', 'g2', 'g3']);
    expect(await groups({ from: 1, count: 2 })).toEqual(['g1', 'g2']);
    expect(await groups({ failed: true })).toEqual(['g3']);
    expect(await groups({ min_reward: 0.5 })).toEqual(['g1', 'g2']);
    expect(await groups({ text: 'éCLAIR' })).toEqual(['g1']);
    expect(await source.rollouts({ ...results, failed: false, count: 1 })).toMatchObject({ total: 4, matched: 3, histogram: { low: 0, high: 1 } });
  });

  it('gives a rollout its texts and its siblings', async () => {
    expect(await open().rollout({ ...results, group: 'g1', index: 0 })).toMatchObject({
      line: { rollout_id: 'g1/0', reward: 0.5, question: 'question 1?' },
      prompt: [{ role: 'user', content: [{ type: 'text', text: 'question 1?' }] }],
      parts: [{ kind: 'model', content: [{ type: 'text', text: 'Éclair' }] }],
      answer: 'no one',
      siblings: [{ group: 'g1' }],
      advantage: null,
    });
  });

  it('gives the thoughts of a policy and of a judge, and says how stop strings were treated', async () => {
    const source = open();
    const { parts, asked, facts } = await source.rollout({ ...results, group: 'g2', index: 0 });
    expect(parts.map(({ kind, reasoning }) => [kind, reasoning])).toEqual([
      ['model', 'I look it up.'],
      ['tool', undefined],
      ['model', 'Now I know.'],
    ]);
    expect(asked.map(({ reasoning }) => reasoning)).toEqual(['It is right.']);
    expect(facts).toEqual(
      expect.arrayContaining([
        { name: 'guessed stops', value: '1' },
        { name: 'ignored stops', value: '2' },
      ]),
    );
    expect(await source.run('first')).toMatchObject({
      summary: { guessed_stops: 1, notices: [expect.stringMatching(/^1 of 5 turns: /), expect.stringMatching(/^2 of 5 turns: /)] },
    });
  });

  it('gives the tokens of training with mask and log-probs', async () => {
    const tokens = await open().tokens({ run: 'train', set: 'step/1', group: 'a', index: 1 });
    expect(tokens).toMatchObject({ ids: [20, 21, 22, 31, 31], mask: [0, 0, 0, 1, 1], log_probs: [null, null, null, -0.5, -1.5], prompt_length: 3 });
    expect(tokens.texts).toHaveLength(5);
  });

  it('gives metrics, the groups of a step with advantages, and a held-out row over time', async () => {
    const source = open();
    const { lines } = await source.metrics('train', 0);
    expect(lines.map(({ kind, step }) => [kind, step])).toEqual([
      ['evaluation', 0],
      ['step', 1],
      ['step', 2],
      ['evaluation', 2],
    ]);
    const { groups, complete } = await source.step('train', 2);
    expect(complete).toBe(true);
    // Rewards 0, 0.5 and 1: their deviation is 0.5. The other group has one finished rollout.
    expect(groups.map(({ rollouts }) => rollouts.map(({ advantage }) => (advantage === null ? null : Math.round(advantage * 1000) / 1000)))).toEqual([
      [-1, 0, 1],
      [null, null],
    ]);
    const { evaluations } = await source.heldOut('train', 'h');
    expect(evaluations.map(({ step, rollouts }) => [step, rollouts[0]?.parts[0]?.content])).toEqual([
      [0, [{ type: 'text', text: 'before' }]],
      [2, [{ type: 'text', text: 'after' }]],
    ]);
  });

  it('compares sets on the same rows, the largest difference first', async () => {
    const sets = [results, { run: 'second', set: 'results' }];
    const comparison = await open().compare({ sets });
    expect(comparison).toMatchObject({
      shared: 4,
      partial: 0,
      differing: 0,
      differences: [{ mean: { value: 1 / 3, n: 3 }, won: 1, tied: 2, lost: 0 }],
    });
    expect(comparison.rows[0]).toMatchObject({ group: 'g0', rewards: [0, 1] });
    expect(comparison.rows.find(({ group }) => group === 'g3')?.rewards).toEqual([null, null]);
  });

  it('rejects what is not there, in one line', async () => {
    const source = open();
    const missing = [
      source.run('nope'),
      source.rollouts({ run: 'first', set: 'nope' }),
      source.rollout({ ...results, group: 'nope', index: 0 }),
      source.heldOut('train', 'nope'),
    ];
    for (const result of await Promise.allSettled(missing)) {
      expect(result.status).toBe('rejected');
      expect((result as PromiseRejectedResult).reason.message).toMatch(/^[^\n]{20,}$/);
    }
  });
}
