/** Evaluations of a training run, which are files of it: vf-compare reads them, vf-score makes a run with other scores of one. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { WireMetadata, WireResult } from '../../src/schemas/results.ts';
import type { WireTrajectory } from '../../src/schemas/training-records.ts';
import { EvalFolder } from './vf-eval-process.ts';

/** Row `c<row>`, rollout `index`, with an answer of the policy. */
function trajectory(row: number, index: number, answer: string, more: Partial<WireTrajectory> = {}): WireTrajectory {
  return {
    rollout_id: `c${row}/${index}`,
    group_id: `c${row}`,
    rollout_index: index,
    reward: Number(answer === 'Paris'),
    metrics: { em: Number(answer === 'Paris'), turns: 1 },
    error: null,
    stop_condition: 'completed',
    is_truncated: false,
    is_cut: false,
    policy_version: 10,
    model: 'nano-v3',
    num_turns: 1,
    segments: [{ kind: 'model', text: `<answer>${answer}</answer>` }],
    token_usage: { input_tokens: 10, output_tokens: 5, cached_tokens: null },
    prompt_length: 10,
    ids: '',
    targets: '',
    ...more,
  };
}

const base = { policy_version: 0, model: 'nano' };
const text = (...lines: readonly (object | string)[]) =>
  lines.map((line) => (typeof line === 'string' ? line : `${JSON.stringify(line)}\n`)).join('');
const failed = {
  reward: null,
  metrics: {},
  stop_condition: 'has_error',
  error: { type: 'PolicyError', message: 'gone', retryable: true, source: 'policy' },
};

const fork = { kind: 'history', at: 1, difference: 'message 1 (user) was "x" and is "y" from character 0 on' };
const branched: Partial<WireTrajectory> = {
  segments: ['Rome', 'Paris'].map((answer) => ({ kind: 'model', text: `<answer>${answer}</answer>` })),
  branches: [
    { length: 0, prompt_length: 0, parent: null, segments: 1 },
    { length: 0, prompt_length: 0, parent: 0, fork, segments: 1, role: 'writer' },
  ],
  thinned: true,
};

function trainedFolder(): EvalFolder {
  const folder = new EvalFolder();
  folder.file('t/config.toml', 'seed = 4\n[environment]\nid = "capitals"\n[environment.args]\nrows = 5\n[rollouts]\ntemperature = 0.5\n');
  const rows = [0, 1, 2, 3];
  // The first attempt does not count, of two records of a rollout the later does, and a line that a kill tore is none.
  const early = [
    trajectory(0, 0, 'Paris'),
    { restarted: true, step: 0 },
    ...rows.flatMap((row) => [trajectory(row, 0, 'Rome', base), trajectory(row, 1, row === 0 ? 'Paris' : 'Rome', base)]),
  ];
  folder.file('t/evaluations/step-000000.jsonl', text(...early, { complete: true, step: 0, attempts: 2, rollouts: 8 }));
  const late = [
    trajectory(3, 1, 'Rome', failed),
    ...rows.flatMap((row) => [trajectory(row, 0, 'Paris', row === 0 ? branched : {}), trajectory(row, 1, row === 3 ? 'Rome' : 'Paris')]),
  ];
  folder.file('t/evaluations/step-000010.jsonl', text(...late, '{"rollout_id":"c'));
  folder.file('t/evaluations/step-000020.jsonl', text(trajectory(0, 0, 'Paris'), trajectory(1, 0, 'Paris', failed), trajectory(9, 0, 'Paris')));
  return folder;
}

const step = (n: number) => `t/evaluations/step-${String(n).padStart(6, '0')}.jsonl`;

describe('an evaluation of a training run', { timeout: 60_000 }, () => {
  it('is compared with another one, row by row', async () => {
    using folder = trainedFolder();
    const { code, stdout, stderr } = await folder.run([step(0), step(10), '--json'], {}, 'vf-compare');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject({
      rows: 4,
      sides: [
        { finished: 8, failed: 0, mean: { value: 1 / 8 } },
        { model: 'nano-v3', changes: ['step: 0 → 10'], finished: 8, mean: { value: 7 / 8 } },
      ],
      pairs: [{ pairs: 8, difference: { value: 6 / 8 }, mcnemar: { gained: 6, lost: 0 }, wins: 4, losses: 0 }],
    });
    const shown = await folder.run([step(0), step(10)], {}, 'vf-compare');
    expect(shown.stdout).toContain('4 rows in common');
  });

  it('names the version that played it where that is not the one of its step', async () => {
    using folder = trainedFolder();
    folder.file('t/evaluations/step-000012.jsonl', text(trajectory(0, 0, 'Paris', failed), trajectory(1, 0, 'Paris')));
    const { stdout } = await folder.run([step(0), step(12), '--json'], {}, 'vf-compare');
    expect(JSON.parse(stdout)).toMatchObject({ sides: [{ changes: [] }, { changes: ['played by version 10', 'step: 0 → 12'] }] });
    expect((await folder.run([step(12), step(0)], {}, 'vf-compare')).stdout).toMatch(/step-000012\.jsonl\n +played by version 10\n/);
  });

  it('becomes a run with the scores of another rubric; the training run stays as it is', async () => {
    using folder = trainedFolder();
    folder.file(
      'strict.ts',
      "import { reward, Rubric } from 'vf-search';\nexport const rubric = new Rubric({ funcs: [reward(({ row, prompt, modelText }) => Number(modelText.includes(row.answer ?? '?') && prompt[0]?.role === 'user') * 2, { name: 'double' })] });\n",
    );
    const before = readFileSync(join(folder.path, step(10)), 'utf8');
    const { code, stdout } = await folder.run([step(10), '--rubric', 'strict.ts'], {}, 'vf-score');
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^scored +8 rollouts, 8 with another score\nreward +0\.875 → 1\.750 over 8 finished/) as string,
    });
    const lines = readFileSync(join(folder.path, 't-step-000010-scored/results.jsonl'), 'utf8').trimEnd().split('\n');
    const results = lines.map((line) => JSON.parse(line) as WireResult);
    expect(results.map(({ rollout_id: id, reward }) => [id, reward])).toContainEqual(['c3/1', 0]);
    const counts = { segments: 1, generations: 0, tokens: null, sampled_tokens: null };
    expect(results.find(({ branches }) => branches !== undefined)).toMatchObject({
      rollout_id: 'c0/0',
      branches: [
        { ...counts, parent: null, fork: null },
        { ...counts, parent: 0, fork, role: 'writer' },
      ],
    });
    expect(results[0]).toMatchObject({ example_id: 'c3', answer: 'Paris', segments: [{ kind: 'model' }], metrics: { double: 0 } });
    const metadata = JSON.parse(readFileSync(join(folder.path, 't-step-000010-scored/metadata.json'), 'utf8')) as WireMetadata;
    expect(metadata).toMatchObject({
      avg_reward: 1.75,
      env_args: { rows: 5 },
      seed: 4,
      config: { training: { run: 't', step: 10 }, scoring: { rubric: 'strict.ts' } },
    });
    expect(readFileSync(join(folder.path, step(10)), 'utf8')).toBe(before);
    const compared = await folder.run([step(10), 't-step-000010-scored', '--json'], {}, 'vf-compare');
    expect(JSON.parse(compared.stdout)).toMatchObject({ pairs: [{ pairs: 8, difference: { value: 7 / 8 } }] });
  });

  it.each<[string, string, string[], RegExp]>([
    ['scored in place', 'vf-score', [step(10), '--in-place'], /is part of a training run, which stays as it is/],
    ['of a row that is gone', 'vf-score', [step(20)], /has a row "c9" that the environment does not have now/],
    ['that is not there', 'vf-compare', [step(10), step(30)], /The file t\/evaluations\/step-000030\.jsonl does not exist/],
    ['without its run', 'vf-compare', ['step-000001.jsonl', step(10)], /is not an evaluation of a training run/],
    [
      'with a damaged line',
      'vf-compare',
      ['t/evaluations/step-000002.jsonl', step(10)],
      /Line 1 of .*step-000002\.jsonl is not a rollout of an evaluation/,
    ],
    [
      'with two lines for a finished rollout',
      'vf-compare',
      ['t/evaluations/step-000003.jsonl', step(10)],
      /Line 2 of \S+step-000003\.jsonl repeats rollout "c0\/0" of line 1 with other contents/,
    ],
  ])('%s is refused in one line', async (_, command, words, message) => {
    using folder = trainedFolder();
    folder.file('step-000001.jsonl', text(trajectory(0, 0, 'Paris')));
    folder.file('t/evaluations/step-000002.jsonl', '{"rollout_id":"c0/0"}\n');
    folder.file('t/evaluations/step-000003.jsonl', text(trajectory(0, 0, 'Paris'), trajectory(0, 0, 'Rome')));
    const { code, stdout, stderr } = await folder.run(words, {}, command);
    expect({ code, stdout, lines: stderr.trimEnd().split('\n').length }).toEqual({ code: 2, stdout: '', lines: 1 });
    expect(stderr).toMatch(message);
  });
});
