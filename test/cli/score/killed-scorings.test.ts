/** vf-score that was killed: the same command finishes it from any point, another one does not touch it, and vf-eval -R does not mix two kinds of scores. */
import { appendFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ChatServer } from '../../models/chat-server.ts';
import { chatServer } from '../../models/chat-server.ts';
import { until } from '../../transport/loopback.ts';
import { oneLine, policyServer, rowIn, ScoreFolder, verdict } from './score-folder.ts';

/** Kills vf-score on `run` at the first change of a file after which the claim holds. */
async function killedOnce(folder: ScoreFolder, words: readonly string[], claim: () => boolean): Promise<void> {
  const [run, played] = [join(folder.path, 'run'), join(folder.path, 'played')];
  cpSync(run, played, { recursive: true });
  for (let n = 1; !claim(); n++) {
    rmSync(run, { recursive: true });
    cpSync(played, run, { recursive: true });
    expect(await folder.killedAt(n, words)).toMatchObject({ signal: 'SIGKILL' });
  }
}

const resumed = (folder: ScoreFolder, policy: ChatServer, run: string, ...words: string[]) =>
  folder.run(['judged', '-n', '3', '-b', `${policy.url}/v1`, '-m', 'm', '-t', '8', '--api-client-type', 'chat', ...words, '-R', run]);

describe.concurrent('vf-score that was killed', { timeout: 300_000 }, () => {
  it('goes on only for the same run, weights, model, server and --ask-again', { tags: 'long' }, async () => {
    let isSlow = true;
    await using policy = await policyServer();
    await using judge = await chatServer(async (request) => {
      if (isSlow && rowIn(request.messages) === '2') await new Promise(() => {});
      return verdict(request);
    });
    await using other = await chatServer(verdict);
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '3']);
    cpSync(join(folder.path, 'run'), join(folder.path, 'run2'), { recursive: true });
    const role = ['--role', `judge=judge-model@${judge.url}/v1`];
    const words = ['-o', 'new', '--max-scoring', '1'];
    const running = folder.start(['run', ...words, ...role], {}, 'vf-score');
    const journal = join(folder.path, 'new.unfinished/scoring.jsonl.partial');
    await until(() => existsSync(journal) && readFileSync(journal, 'utf8').split('\n').length === 4);
    running.child.kill('SIGKILL');
    await running.ended;
    const before = folder.files();
    for (const others of [
      ['run2', ...words, ...role],
      ['run', ...words, ...role, '--weight', 'judge=2'],
      ['run', ...words, ...role, '--ask-again'],
      ['run', ...words, '--role', `judge=h@${judge.url}/v1`],
      ['run', ...words, '--role', `judge=judge-model@${other.url}/v1`],
    ]) {
      const ended = await folder.score(...others);
      expect({ others, ...ended }).toMatchObject({ others, code: 2, stdout: '' });
      expect(ended.stderr).toContain('new.unfinished is the unfinished scoring of another run, or with another environment, rubric');
    }
    expect(folder.files()).toEqual(before);
    isSlow = false;
    const calls = judge.bodies.length;
    expect(await folder.score('run', ...words, ...role)).toMatchObject({ code: 0 });
    expect([judge.bodies.length - calls, other.bodies.length]).toEqual([1, 0]);
  });

  it('leaves nothing behind where it is refused, and removes what a killed copy left', async () => {
    await using policy = await policyServer();
    await using judge = await chatServer(() => ({ status: 401, body: { error: { message: 'wrong key' } } }));
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '3']);
    folder.changed('other', (line) => ({ ...line, answer: 'Rome' }));
    const names = readdirSync(folder.path);
    expect(await folder.score('other', '-o', 'new')).toMatchObject({ code: 2 });
    const role = ['--role', `judge=judge-model@${judge.url}/v1`];
    folder.hasOwnProcess = true;
    expect(await folder.score('run', '-o', 'new', ...role)).toMatchObject({ code: 1 });
    expect(await folder.score('run', '--in-place', ...role)).toMatchObject({ code: 1 });
    folder.hasOwnProcess = false;
    expect(readdirSync(folder.path)).toEqual(names);
    expect(readdirSync(join(folder.path, 'run'))).not.toContain('scoring.jsonl.partial');
    mkdirSync(join(folder.path, 'new.unfinished.99999999.tmp'));
    folder.file('run/results.jsonl.99999999.tmp', '');
    expect(await folder.score('run', '-o', 'new')).toMatchObject({ code: 0 });
    expect(await folder.score('run', '--in-place')).toMatchObject({ code: 0 });
    expect(readdirSync(folder.path)).toEqual([...names, 'new'].toSorted());
    expect(readdirSync(join(folder.path, 'run'))).not.toContain('results.jsonl.99999999.tmp');
  });

  it('never mixes with a resume: vf-eval -R names the way out', { tags: 'long' }, async () => {
    await using policy = await policyServer();
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2']);
    const words = ['run', '--in-place', '--weight', 'judge=2'];
    const own = folder.lines('run', 'results.jsonl');
    // After the results were replaced, before the metadata was.
    await killedOnce(folder, words, () => folder.lines('run', 'results.jsonl').some((line, i) => line !== own[i]));
    expect(folder.metadata().config['scoring']).toBeUndefined();
    const early = await resumed(folder, policy, 'run');
    expect({ ...oneLine(early), stderr: early.stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /run has an unfinished scoring\. Run the same vf-score command again to finish it\. Then resume the run\.\n$/,
      ) as string,
    });
    expect(await folder.score(...words)).toMatchObject({ code: 0 });
    const late = await resumed(folder, policy, 'run');
    expect(late).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/was scored by vf-score with \{"weights":\{"judge":2\}\}.* vf-score .*run --in-place, then resume/) as string,
    });
    expect(await folder.score('run', '--in-place')).toMatchObject({ code: 0 });
    expect(await resumed(folder, policy, 'run')).toMatchObject({ code: 0, stdout: expect.stringContaining('3 finished') as string });
    expect([...folder.rollouts().values()].map(({ reward }) => reward)).toEqual([1.5, 1.5, 1.5]);
  });

  it('puts no score over a rollout that was played again since', { tags: 'long' }, async () => {
    await using policy = await policyServer();
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2']);
    const words = ['run', '--in-place', '--weight', 'judge=2'];
    await killedOnce(folder, words, () => (folder.run_files()['scoring.jsonl.partial'] ?? '').includes('"closed":true'));
    const [first, second] = folder.lines('run', 'results.jsonl');
    folder.file('run/results.jsonl', `${first!.replaceAll('Paris, I think.', 'Lyon, I think.')}\n`);
    appendFileSync(join(folder.path, 'run/results.jsonl'), `${second}\n`);
    const before = folder.lines('run', 'results.jsonl');
    const ended = await folder.score(...words);
    expect(oneLine(ended)).toEqual({ code: 2, stdout: '', lines: 1 });
    expect(ended.stderr).toContain('run has changed since its unfinished scoring began');
    expect(folder.lines('run', 'results.jsonl')).toEqual(before);
  });
});

describe('vf-score on an evaluation that was killed', { timeout: 120_000 }, () => {
  it('gives the figures of the rollouts on file, and says that the run is incomplete', async () => {
    await using policy = await chatServer(async (_, index) => {
      await new Promise((resolve) => setTimeout(resolve, 15));
      return index % 3 === 0 ? 'Rome.' : 'Paris.';
    });
    using folder = new ScoreFolder();
    const words = [
      'judged',
      '-n',
      '60',
      '-c',
      '1',
      '-a',
      '{"rows": 60}',
      '-o',
      'out',
      '-b',
      `${policy.url}/v1`,
      '-m',
      'm',
      '--api-client-type',
      'chat',
    ];
    const running = folder.start(words);
    await until(() => folder.results().length >= 20);
    running.child.kill('SIGKILL');
    await running.ended;
    const [base] = readdirSync(join(folder.path, 'out/evals'));
    const killed = join('out/evals', base!, readdirSync(join(folder.path, 'out/evals', base!))[0]!);
    const rewards = folder.results().map(({ reward }) => reward as number);
    const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
    expect(folder.metadata(killed)).not.toMatchObject({ num_finished: rewards.length });
    const wanted = { num_finished: rewards.length, num_planned: 60, complete: false, avg_reward: expect.closeTo(mean, 12) as number };
    for (const [how, scored] of [
      [['-o', 'new'], 'new'],
      [['--in-place'], killed],
    ] as const) {
      const { code, stdout } = await folder.score(killed, ...how);
      expect({ code, stdout }).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(
          new RegExp(`^incomplete ${rewards.length} of 60 rollouts are on file\\. \\S+.*vf-eval(\\.js)? -R `, 'm'),
        ) as string,
      });
      expect(stdout).not.toContain('→');
      expect(folder.metadata(scored)).toMatchObject({ ...wanted, usage: { input_tokens: 7 * rewards.length } });
      expect(folder.metadata(scored).scorings).toBeUndefined();
    }
  });
});
