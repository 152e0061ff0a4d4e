/** The place of a new run of vf-score: next to the old run, whatever its name, and never inside it; two at once get a folder each. */
import { cpSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openPlace } from '../../../src/sessions/scoring/score-place.ts';
import { ScoreJournal } from '../../../src/evaluate/score-journal.ts';
import { chatServer } from '../../models/chat-server.ts';
import { until } from '../../transport/loopback.ts';
import { runInProcess } from '../in-process.ts';
import { oneLine, policyServer, said, ScoreFolder } from './score-folder.ts';

describe.concurrent('vf-score', { timeout: 300_000 }, () => {
  it('writes the new run next to the run, also from inside it, and refuses a folder inside it', async () => {
    await using policy = await policyServer();
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2']);
    symlinkSync(join(folder.path, 'run'), join(folder.path, 'link'));
    const before = folder.run_files();
    const inside = (...args: readonly string[]) => runInProcess('vf-score', ['.', ...args], { cwd: join(folder.path, 'run'), env: {} });
    const words = ['--weight', 'judge=2', '--env', join(folder.path, 'environments/judged')];
    for (const output of ['inside', '../link/inside', join(folder.path, 'run/a/b')]) {
      const ended = await inside(...words, '-o', output);
      expect(oneLine(ended)).toEqual({ code: 2, stdout: '', lines: 1 });
      expect(ended.stderr).toContain(`cannot be written to ${output}: it is inside ., which stays as it is. Name another folder with -o.`);
    }
    const scored = await inside(...words);
    expect(scored).toMatchObject({ code: 0, stdout: expect.stringContaining('../run-scored\n') as string });
    expect(folder.run_files()).toEqual(before);
    expect(readdirSync(folder.path).filter((name) => name.startsWith('run'))).toEqual(['run', 'run-scored']);
  });

  it('gives a second one a folder of its own, and refuses it with -o', async () => {
    let isHeld = true;
    await using policy = await policyServer();
    await using judge = await chatServer(async () => {
      await until(() => !isHeld);
      return said(0.5);
    });
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2']);
    const words = ['run', '--role', `judge=judge-model@${judge.url}/v1`];
    const atOnce = [folder.start(words, {}, 'vf-score'), folder.start(words, {}, 'vf-score'), folder.start([...words, '-o', 'new'], {}, 'vf-score')];
    await until(() => judge.bodies.length === 6);
    for (const weight of [[], ['--weight', 'judge=2']]) {
      const refused = await folder.score(...words, ...weight, '-o', 'new');
      expect({ ...oneLine(refused), stderr: refused.stderr }).toEqual({
        code: 2,
        stdout: '',
        lines: 1,
        stderr: expect.stringMatching(/Another vf-score is writing to .*new\.unfinished\. Wait for it, or name another folder with -o\./) as string,
      });
    }
    isHeld = false;
    for (const { ended } of atOnce) expect(await ended).toMatchObject({ code: 0 });
    expect(readdirSync(folder.path).toSorted()).toEqual(['environments', 'new', 'run', 'run-scored', 'run-scored-2']);
    for (const name of ['new', 'run-scored', 'run-scored-2']) expect(Object.keys(folder.run_files(name))).toEqual(Object.keys(folder.run_files()));
  });

  it('leaves the folder that another process has filled while it copied the run', async () => {
    await using policy = await policyServer();
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2']);
    const [run, path] = [join(folder.path, 'run'), join(folder.path, 'new')];
    let isFirst = true;
    const copyTo = async (copy: string) => {
      cpSync(run, copy, { recursive: true });
      if (!isFirst) return;
      isFirst = false;
      cpSync(run, `${path}.unfinished`, { recursive: true });
      await ScoreJournal.begin(`${path}.unfinished`, 'theirs');
    };
    await expect(openPlace({ path, isNamed: true }, { digest: 'own', copyTo })).rejects.toThrow('Another vf-score is writing to');
    expect(await openPlace({ path, isNamed: false }, { digest: 'own', copyTo })).toMatchObject({ directory: `${path}-2` });
    expect(readdirSync(folder.path).toSorted()).toEqual(['environments', 'new-2.unfinished', 'new.unfinished', 'run']);
  });
});
