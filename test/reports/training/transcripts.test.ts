import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Transcripts } from '../../../src/reports/training/transcripts.ts';
import { noPaint } from '../../../src/reports/text/paint.ts';
import { Dataset } from '../../../src/core/dataset.ts';
import { trainingPaths } from '../../../src/trainer/records/training-directory.ts';
import { trajectoryRecord } from '../../../src/trainer/records/trajectory-record.ts';
import { branched } from '../../trainer/branched-trajectory.ts';
import { trajectory } from '../../trainer/some-trajectories.ts';

const ROWS = ['a', 'b', 'c'].map((id) => ({ exampleId: id, prompt: [{ role: 'user' as const, content: `Who is ${id}?` }], answer: `It is ${id}.` }));

let folder: string;
let said: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-transcripts-'));
  mkdirSync(join(folder, 'evaluations'));
  said = [];
});
afterEach(() => rmSync(folder, { recursive: true }));

/** One rollout a row, recorded in this order. */
function evaluate(step: number, rewards: Readonly<Record<string, number | null>>): void {
  const path = join(folder, `evaluations/step-${String(step).padStart(6, '0')}.jsonl`);
  for (const [id, reward] of Object.entries(rewards)) {
    const error = reward === null ? { type: 'PolicyError', message: 'gone', retryable: true, source: 'policy' as const } : null;
    const rollout = trajectory(`${id}/0`, { reward, error, segments: [{ kind: 'model', text: `${id} at ${step}: ${'words '.repeat(300)}end` }] });
    appendFileSync(path, `${JSON.stringify(trajectoryRecord(rollout, (text) => text))}\n`);
  }
}

const open = (name: string | null = null) =>
  new Transcripts({
    name,
    environment: { eval: new Dataset('letters', ROWS) },
    paths: trainingPaths(folder),
    columns: 80,
    paint: noPaint,
    note: (line) => said.push(line),
    warn: (line) => said.push(line),
  });

describe('Transcripts', () => {
  it('show one question before and after, the first of those that went worst, and keep both whole', async () => {
    const transcripts = open('a night');
    evaluate(0, { c: 0, b: 0, a: 1 });
    transcripts.evaluated();
    evaluate(2, { a: 0, b: 0.5, c: 0.25 });
    transcripts.evaluated();
    evaluate(4, { a: 1, b: 1, c: 1 });
    const path = await transcripts.finish();
    const titles = said.filter((line) => line.includes('row b'));
    expect(titles).toEqual(['Before training  row b, rollout 1, reward 0, completed', 'After 4 steps  row b, rollout 1, reward 1, completed']);
    expect(said.filter((line) => line.includes('Who is b?'))).toHaveLength(1);
    expect(said.every((line) => line.length <= 80)).toBe(true);
    const kept = readFileSync(path!, 'utf8');
    expect(path).toBe(join(folder, 'transcripts.txt'));
    for (const part of ['Before training', 'b at 0', 'After 4 steps', 'b at 4', 'It is b.']) expect(kept).toContain(part);
    expect(kept).toMatch(/^name +a night\n\nBefore training/);
    expect(kept.match(/words/g)).toHaveLength(600);
  });

  it('show where each branch of an agent began', async () => {
    const fork = { kind: 'history', at: 1, difference: 'message 1 (user) was "x" and is "y" from character 0 on' } as const;
    for (const step of [0, 2]) {
      const made = branched('a/0', [{ sampled: [-1] }, { sampled: [-1], parent: 0 }]);
      const branches = made.branches!.map((branch, i) => ({ ...branch, segments: 1, ...(i > 0 && { fork }) }));
      appendFileSync(
        join(folder, `evaluations/step-00000${step}.jsonl`),
        `${JSON.stringify(trajectoryRecord({ ...made, reward: 0, branches }, (text) => text))}\n`,
      );
    }
    const kept = readFileSync((await open().finish())!, 'utf8');
    expect(kept).toContain('  branch 0\n  model        turn 0\n  branch 1: its history was rewritten, left branch 0 after 1 message: message 1');
    expect(kept).toContain('\n  model        turn 1\n');
  });

  it('show both at the end where the first evaluation was that of an earlier process', async () => {
    evaluate(0, { a: 0 });
    evaluate(4, { a: 1 });
    await open().finish();
    expect(said.filter((line) => line.includes('row a')).map((line) => line.split('  ')[0])).toEqual(['Before training', 'After 4 steps']);
  });

  it('have nothing to compare where only one evaluation finished, or the rollout failed later', async () => {
    expect(await open().finish()).toBeNull();
    evaluate(0, { a: null, b: 0 });
    const transcripts = open();
    transcripts.evaluated();
    expect(await transcripts.finish()).toBeNull();
    evaluate(4, { a: 1, b: null });
    expect(await open().finish()).toBeNull();
    expect(said.filter((line) => line.includes('row b'))).toHaveLength(1);
    expect(existsSync(join(folder, 'transcripts.txt'))).toBe(false);
  });

  it('never make a run fail', async () => {
    rmSync(join(folder, 'evaluations'), { recursive: true });
    expect(await open().finish()).toBeNull();
    expect(said).toEqual([expect.stringMatching(/^no transcript: .*ENOENT/)]);
  });
});
