import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openView } from '../../src/server/view/open-view.ts';
import type { Comparison } from '../../src/viewing/view-wire.ts';
import { writeEvaluation, writeTraining, type WrittenRow } from './written-runs.ts';

const root = mkdtempSync(join(tmpdir(), 'comparison-'));
afterAll(() => rmSync(root, { recursive: true }));

const ROWS: readonly WrittenRow[] = [0, 1, 2].map((i) => ({ group: `eval-${i}`, reward: i / 2, question: `question ${i}?`, answer: `answer ${i}` }));
const noAnswer = { answer: undefined };

beforeAll(() => {
  const write = (name: string, rows: readonly WrittenRow[]) => writeEvaluation(join(root, name), rows);
  write('first', ROWS);
  write(
    'prompted',
    ROWS.map((row) => ({ ...row, question: `Think. ${row.question}` })),
  );
  write(
    'mixed',
    ROWS.map((row, i) => (i === 1 ? { ...row, answer: 'another' } : row)),
  );
  write(
    'others',
    ROWS.map((row) => ({ ...row, answer: `other ${row.answer}` })),
  );
  write(
    'infos',
    ROWS.map((row) => ({ ...row, more: { info: { b: 1, a: 2 } } })),
  );
  write(
    'turned-infos',
    ROWS.map((row, i) => ({ ...row, more: { info: i === 2 ? { a: 3, b: 1 } : { a: 2, b: 1 } } })),
  );
  write(
    'asked',
    ROWS.map((row) => ({ ...row, more: noAnswer })),
  );
  write(
    'otherwise-asked',
    ROWS.map((row, i) => ({ ...row, question: i === 0 ? 'else?' : row.question!, more: noAnswer })),
  );
  for (const digest of ['0cee2717', '5d41402a'])
    writeEvaluation(join(root, `by-${digest}`), ROWS, { sessions: [{ inputs: { env_id: { 'env.ts': digest } } }] });
  writeTraining(join(root, 'train'));
  writeTraining(join(root, 'elsewhere'));
  const config = join(root, 'elsewhere/config.toml');
  writeFileSync(config, readFileSync(config, 'utf8').replace('id = "written"', 'id = "another"'));
  write('held-out', [{ group: 'h' }, { group: 'k' }]);
});

async function compare(...runs: readonly string[]): Promise<Comparison> {
  const { source } = await openView({ folder: root, tokenizer: undefined });
  return await source.compare({ sets: runs.map((run) => ({ run, set: ['train', 'elsewhere'].includes(run) ? 'evaluation/2' : 'results' })) });
}

describe('a comparison in vf-view', () => {
  it('pairs only rows that are the same question, and counts ids that stand for two', async () => {
    const comparison = await compare('first', 'mixed');
    expect(comparison).toMatchObject({ shared: 2, partial: 0, differing: 1, differences: [{ won: 0, tied: 2, lost: 0 }] });
    expect(comparison.rows.map(({ group }) => group)).toEqual(['eval-0', 'eval-2']);
    expect(comparison.sets[0]!.reward).toMatchObject({ value: 0.5, n: 2 });
    expect(await compare('first', 'prompted', 'mixed')).toMatchObject({ shared: 2, differing: 1 });
  });

  it('pairs nothing of runs of different data', async () => {
    expect(await compare('first', 'others')).toMatchObject({ shared: 0, differing: 3, rows: [], differences: [{ mean: null, won: 0, lost: 0 }] });
  });

  it('takes rows for the same whose prompts differ, and looks at info in any order of its keys', async () => {
    expect(await compare('first', 'prompted')).toMatchObject({ shared: 3, differing: 0 });
    expect(await compare('infos', 'turned-infos')).toMatchObject({ shared: 2, differing: 1 });
  });

  it('looks at the question where rows have no answer, and trusts ids of steps, which hold tokens', async () => {
    expect(await compare('asked', 'otherwise-asked')).toMatchObject({ shared: 2, differing: 1 });
    expect(await compare('held-out', 'train')).toMatchObject({ shared: 2, differing: 0 });
  });

  it('pairs nothing by ids alone across environments', async () => {
    expect(await compare('elsewhere', 'train')).toMatchObject({ shared: 0, differing: 2, differences: [{ mean: null }] });
  });

  it('pairs nothing that different versions of the environment scored, and says which file changed', async () => {
    const why =
      'A and B were scored by different versions of their environment (env.ts changed), and rewards of different environments have different scales';
    const { differences, shared } = await compare('by-0cee2717', 'by-5d41402a');
    expect({ differences, shared }).toEqual({ differences: [{ mean: null, won: 0, tied: 0, lost: 0, notComparable: why }], shared: 3 });
    expect(await compare('by-0cee2717', 'by-0cee2717')).toMatchObject({ differences: [{ tied: 3, notComparable: null }] });
  });
});
