/** `trace.jsonl` of an evaluation: what it holds, and what a kill, a secret and a full disk leave of it. */
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { recordEvaluation } from '../../src/evaluate/record-evaluation.ts';
import { finish, recorded, start } from './sums-process.ts';
import { sumsEnvironment, sumsOptions } from './sums-world.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-trace-'));
});
afterEach(() => rm(directory, { recursive: true }));

type Line = Readonly<Record<string, unknown>> & { readonly event: string; readonly rollout_id: string | null };

async function traceOf(run: string): Promise<Line[]> {
  const content = await readFile(join(directory, run, 'trace.jsonl'), 'utf8');
  return content
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
}

describe('trace.jsonl of an evaluation', () => {
  it('has every turn, what the environment reported of it and the reward, in this order, with the place of each', async () => {
    await recordEvaluation(sumsOptions(join(directory, 'run'), { environment: sumsEnvironment({ rows: 2, traces: true }) }));
    const lines = await traceOf('run');
    expect(lines.map(({ event, turn }) => [event, turn])).toEqual([
      ['run.start', null],
      ...[0, 1].flatMap(() => [
        ['model.turn', 0],
        ['guess', 0],
        ['model.turn', 1],
        ['guess', 1],
        ['reward', null],
      ]),
    ]);
    expect(lines[0]).toMatchObject({ run_id: 'run', step: null, rollout_id: null, environment: 'sums', model: 'scripted' });
    const [first, guess, , , reward] = lines.filter(({ rollout_id: id }) => id === '0/0');
    expect(first).toMatchObject({ run_id: 'run', step: null, group_id: '0', seq: 0, text: 'hm, ', finish: 'stop' });
    expect(guess).toMatchObject({ kept: 'hm, ', seq: 1 });
    expect(reward).toMatchObject({
      seq: 4,
      lines: 5,
      reward: 1,
      metrics: { right: 1, em: 1, pieces: 3 },
      question: 'What is 0 + 0?',
      reference: '0',
      info: { difficulty: 0 },
      prompt: [{ role: 'user', content: 'What is 0 + 0?' }],
    });
    expect(lines.every(({ ts, play }) => typeof ts === 'number' && (play === undefined || Number.isInteger(play)))).toBe(true);
  });

  it('is not written where the environment does not trace', async () => {
    await recordEvaluation(sumsOptions(join(directory, 'run')));
    expect(await readdir(join(directory, 'run'))).not.toContain('trace.jsonl');
  });

  it('has every rollout once after a run that was killed again and again', async () => {
    const random = Random.fromSeed(5);
    for (let round = 0; round < 2; round++) {
      const child = start(join(directory, 'run'), { turnMs: 3, resume: round > 0, traces: true });
      await recorded(child, 1 + random.integer(25));
      child.kill('SIGKILL');
      await once(child, 'close');
    }
    const { summary } = await finish(join(directory, 'run'), { resume: true, traces: true });
    expect(summary.rollouts.finished).toBe(120);
    const lines = await traceOf('run');
    expect(lines.filter(({ event }) => event === 'run.start')).toHaveLength(3);
    const byRollout = Map.groupBy(
      lines.filter(({ rollout_id: id }) => id !== null),
      ({ rollout_id: id }) => id,
    );
    expect(byRollout.size).toBe(120);
    expect([...byRollout.values()].map((own) => own.map(({ event }) => event).join(' '))).toEqual(
      Array.from({ length: 120 }, () => 'model.turn guess model.turn guess reward'),
    );
  });

  it('holds no secret', async () => {
    await recordEvaluation(sumsOptions(join(directory, 'run'), { environment: sumsEnvironment({ rows: 1, traces: true }), secrets: ['hm, '] }));
    const lines = await traceOf('run');
    expect(lines[1]).toMatchObject({ event: 'model.turn', text: '***' });
    expect(JSON.stringify(lines)).not.toContain('hm, ');
  });

  it('that cannot be written costs the run nothing, and the summary counts what it lacks', async () => {
    await mkdir(join(directory, 'run', 'trace.jsonl'), { recursive: true });
    const { summary } = await recordEvaluation(sumsOptions(join(directory, 'run'), { environment: sumsEnvironment({ rows: 3, traces: true }) }));
    expect(summary.rollouts.finished).toBe(3);
    expect(summary.notices.at(-1)).toMatch(/^trace\.jsonl lacks 3 rollouts: .*is a folder/);
  });

  it('is compared with the results on resume, so that the summary still counts what an earlier process could not write', async () => {
    const run = join(directory, 'run');
    const resumed = (rows: number) =>
      recordEvaluation({ ...sumsOptions(run, { environment: sumsEnvironment({ rows, traces: true }) }), numExamples: rows, resume: true });
    await mkdir(join(run, 'trace.jsonl'), { recursive: true });
    await recordEvaluation(sumsOptions(run, { environment: sumsEnvironment({ rows: 3, traces: true }) }));
    expect((await resumed(3)).summary.notices.at(-1)).toMatch(/^trace\.jsonl lacks 3 rollouts: .*is a folder/);
    await rmdir(join(run, 'trace.jsonl'));
    const lost = 'trace.jsonl lacks 3 rollouts: an earlier process of this run did not write them';
    expect((await resumed(5)).summary.notices.at(-1)).toBe(lost);
    expect((await resumed(5)).summary.notices.at(-1)).toBe(lost);
    expect((await traceOf('run')).filter(({ event }) => event === 'reward').map(({ rollout_id: id }) => id)).toEqual(['3/0', '4/0']);
  });

  it('that is whole gives no notice on resume', async () => {
    const options = sumsOptions(join(directory, 'run'), { environment: sumsEnvironment({ rows: 3, traces: true }) });
    await recordEvaluation(options);
    expect((await recordEvaluation({ ...options, resume: true })).summary.notices.join()).not.toContain('trace.jsonl');
  });
});
