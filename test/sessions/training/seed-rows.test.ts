import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { OpenTrainingOptions } from '../../../src/sessions/training/open-training.ts';
import { withSeedRows } from '../../../src/sessions/training/seed-rows.ts';
import { readDemonstrations } from '../../../src/trainer/sources/read-demonstrations.ts';
import { someConfig } from '../../trainer/some-config.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-seed-rows-'));
afterAll(() => rmSync(folder, { recursive: true }));
const problems = join(folder, 'own.jsonl');
const seedRows = join(folder, 'seed-rows.jsonl');

async function seeded(sft: Record<string, unknown>) {
  const notes: string[] = [];
  const directory = { paths: { seedRows } } as OpenTrainingOptions['directory'];
  const signal = new AbortController().signal;
  const config = await withSeedRows({ config: someConfig({ sft }), directory, variables: {}, note: (line) => void notes.push(line), signal });
  return { config, notes };
}

describe('withSeedRows', () => {
  it('adds worked problems to the demonstrations, with the weights of the document, and says so once', async () => {
    const row = { question: 'How many?', solution: 'Count: two.', answer: '2' };
    writeFileSync(problems, `${JSON.stringify(row)}\n${JSON.stringify({ ...row, answer: '' })}\n`);
    const { config, notes } = await seeded({ problems, steps: 3 });
    expect(config.sft.data).toEqual([seedRows]);
    expect(notes).toEqual([
      '1 worked problem of own.jsonl for 3 supervised steps before the first step on rollouts; left out: 1 unusable line: line 2 (its answer is blank)'.replace(
        'own.jsonl',
        problems,
      ),
    ]);
    const { training } = await readDemonstrations(config);
    expect(training.map((each) => each.row)).toEqual([
      {
        example_id: 'own:1',
        prompt: [{ role: 'user', content: 'How many?' }],
        segments: [
          { kind: 'model', text: '<think>\nCount: two.\n</think>\n', weight: 1 },
          { kind: 'model', text: '<answer>2</answer>', weight: 0.1, ends_turn: true },
        ],
      },
    ]);
    // A resumed run reads its own rows, whatever became of the data.
    const before = readFileSync(seedRows, 'utf8');
    rmSync(problems);
    const again = await seeded({ problems, steps: 3, data: 'more.jsonl' });
    expect([again.config.sft.data, again.notes, readFileSync(seedRows, 'utf8')]).toEqual([['more.jsonl', seedRows], [], before]);
  });

  it('changes nothing without problems, and leaves no file of data that cannot be read', async () => {
    const given = someConfig({ sft: { data: 'rows.jsonl' } });
    expect((await seeded({ data: 'rows.jsonl' })).config).toEqual(given);
    rmSync(seedRows, { force: true });
    await expect(seeded({ problems: join(folder, 'nowhere.jsonl'), steps: 1 })).rejects.toThrow(/nowhere\.jsonl does not exist/);
    expect(() => readFileSync(seedRows)).toThrow(/ENOENT/);
  });
});
