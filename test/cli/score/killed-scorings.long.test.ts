/**
 * vf-score that was killed at each of its changes of a file, in place and into a new run.
 * @module-tag long
 */
import { cpSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { chatServer } from '../../models/chat-server.ts';
import { policyServer, ScoreFolder, verdict } from './score-folder.ts';

/** Everything but times. */
function scores(folder: ScoreFolder, run: string) {
  const { updated_at: _, scorings, roles: ___, ...metadata } = folder.metadata(run);
  const results = [...folder.rollouts(run).values()].map(({ timing: __, ...result }) => result);
  const verdicts = [...folder.asked(run)].map(([id, calls]) => [id, calls.map(({ model, text }) => [model, text])]);
  return { metadata, scorings: scorings?.map(({ at: __, ...scoring }) => scoring), results, verdicts, files: Object.keys(folder.run_files(run)) };
}

describe.concurrent('vf-score that was killed', () => {
  it.each([
    ['in place', ['--in-place'], 'run'],
    ['in a new run', [], 'run-scored'],
  ])('%s is finished by the same command from any point: nothing is lost, scored twice or left over', async (_, how, scored) => {
    await using policy = await policyServer();
    await using judge = await chatServer(verdict);
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2']);
    const words = ['run', ...how, '--max-scoring', '1', '--role', `judge=judge-model@${judge.url}/v1`, '--weight', 'judge=2'];
    const played = join(folder.path, 'played');
    cpSync(join(folder.path, 'run'), played, { recursive: true });
    expect(await folder.score(...words)).toMatchObject({ code: 0 });
    const wanted = scores(folder, scored);
    expect(wanted.scorings).toHaveLength(1);
    let points = 0;
    for (let isKilled = true; isKilled;) {
      for (const name of readdirSync(folder.path)) if (name.startsWith('run')) rmSync(join(folder.path, name), { recursive: true });
      cpSync(played, join(folder.path, 'run'), { recursive: true });
      const calls = judge.bodies.length;
      isKilled = (await folder.killedAt(points + 1, words)).signal === 'SIGKILL';
      if (!isKilled) break;
      points += 1;
      const { code, stderr: noted } = await folder.score(...words);
      // A busy machine takes long enough for a note of progress.
      const stderr = noted.replaceAll(/^.*rollouts scored.*\n/gm, '');
      const left = readdirSync(folder.path).filter((name) => name.startsWith('run'));
      const asked = judge.bodies.length - calls;
      expect({ points, code, stderr, asked, left, ...scores(folder, scored) }).toEqual({
        points,
        code: 0,
        stderr: '',
        asked: 2,
        left: [...new Set(['run', scored])].toSorted(),
        ...wanted,
      });
    }
    expect(points).toBeGreaterThan(8);
  });
});
