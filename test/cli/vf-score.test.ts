/** vf-score: other scores for rollouts on file, without playing any. Real commands in child processes, a policy and judges on loopback servers. */
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { WireResult } from '../../src/schemas/results.ts';
import { chatServer } from '../models/chat-server.ts';
import { until } from '../transport/loopback.ts';
import { oneLine, policyServer, refused, rowIn, said, ScoreFolder } from './score/score-folder.ts';

// Each test is a chain of processes, so they overlap.
describe.concurrent('vf-score', { timeout: 180_000 }, () => {
  it('asks a judge that was down about the rollouts that it missed, and leaves every other line byte for byte', async () => {
    const down = new Set(['1', '3']);
    await using policy = await policyServer();
    await using judge = await chatServer(({ messages }) => (down.has(rowIn(messages)) ? refused : said(0.5)));
    using folder = new ScoreFolder();
    const role = ['--role', `judge=g@${judge.url}/v1`];
    await folder.play(policy, ['-n', '4', ...role]);
    expect(folder.metadata()).toMatchObject({ num_finished: 2, num_errored: 2, avg_reward: 1 });
    const before = { results: folder.lines('run', 'results.jsonl'), asked: folder.lines('run', 'asked.jsonl'), calls: judge.bodies.length };
    down.clear();
    const { code, stdout } = await folder.score('run', '--failed', '--in-place', ...role);
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^scored +2 rollouts, 2 with another score\nleft +2 as they were: this scoring does not cover them\n/) as string,
    });
    expect(
      judge.bodies
        .slice(before.calls)
        .map(({ messages }) => rowIn(messages))
        .toSorted(),
    ).toEqual(['1', '3']);
    expect(policy.bodies).toHaveLength(4);
    const after = folder.lines('run', 'results.jsonl');
    expect(after.map((line, i) => line === before.results[i])).toEqual(before.results.map((line) => !line.includes('"error":{')));
    expect(
      [...folder.rollouts().values()].map(({ reward, error, stop_condition: stop, metrics }) => ({ reward, error, stop, turns: metrics['turns'] })),
    ).toEqual(Array.from({ length: 4 }, () => ({ reward: 1, error: null, stop: folder.rollouts().get('r0/0')!.stop_condition, turns: 1 })));
    expect(folder.lines('run', 'asked.jsonl').slice(0, 2)).toEqual(before.asked);
    expect([...folder.asked().keys()].toSorted()).toEqual(['r0/0', 'r1/0', 'r2/0', 'r3/0']);
    expect(folder.metadata()).toMatchObject({
      num_finished: 4,
      num_errored: 0,
      avg_reward: 1,
      roles: { judge: { calls: 4 } },
      scorings: [{ scored: 2, changed: 2, settings: {} }],
    });
    // The run is the one that it would have been: it can go on.
    const resumed = await folder.run([
      'judged',
      '-n',
      '5',
      '-a',
      '{"rows": 5}',
      '-b',
      `${policy.url}/v1`,
      '-m',
      'm',
      '-t',
      '8',
      '--api-client-type',
      'chat',
      ...role,
      '-R',
      'run',
    ]);
    expect(resumed.stderr).toContain('env_args.rows was absent and is 5 now');
    const same = await folder.run([
      'judged',
      '-n',
      '4',
      '-b',
      `${policy.url}/v1`,
      '-m',
      'm',
      '-t',
      '8',
      '--api-client-type',
      'chat',
      ...role,
      '-R',
      'run',
    ]);
    expect(same).toMatchObject({ code: 0, stdout: expect.stringMatching(/^rollouts +4 finished, 0 failed/m) as string });
    expect(policy.bodies).toHaveLength(4);
  });

  it('changes no byte of any file where nothing changes, and asks nobody', async () => {
    await using policy = await policyServer();
    await using judge = await chatServer(() => said(0.25));
    using folder = new ScoreFolder();
    const role = ['--role', `judge=g@${judge.url}/v1`];
    await folder.play(policy, ['-n', '3', '-r', '2', '-a', '{"group": true}', ...role]);
    const [before, calls] = [folder.run_files(), judge.bodies.length];
    for (const words of [
      ['run', '--in-place'],
      ['run', '--in-place', ...role],
      ['run', '--in-place', '--failed', ...role],
    ]) {
      expect(await folder.score(...words)).toMatchObject({ code: 0, stdout: expect.stringContaining(' 0 with another score') as string });
      expect(folder.run_files()).toEqual(before);
    }
    expect(judge.bodies).toHaveLength(calls);
    expect(await folder.score('run')).toMatchObject({ code: 0 });
    expect(folder.run_files('run-scored')).toEqual(before);
  });

  it('writes a run with another judge next to the old one, which stays unchanged', async () => {
    await using policy = await policyServer();
    await using judge = await chatServer(() => said(1));
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '3']);
    const before = folder.run_files();
    const { code, stdout } = await folder.score('run', '--role', `judge=other@${judge.url}/v1`, '-o', 'new', '--json');
    expect({ code, ...(JSON.parse(stdout) as object) }).toMatchObject({
      code: 0,
      directory: 'new',
      replaced: true,
      scored: 3,
      changed: 0,
      failed: [],
    });
    expect(folder.run_files()).toEqual(before);
    expect(folder.metadata('new').config['roles']).toEqual({ judge: 'other' });
    expect([...folder.asked('new').values()].map((calls) => calls.map(({ model }) => model))).toEqual([['other'], ['other'], ['other']]);
    const mixed = await folder.score('run', '--failed', '--in-place', '--role', `judge=other@${judge.url}/v1`);
    expect(oneLine(mixed)).toEqual({ code: 2, stdout: '', lines: 1 });
    expect(mixed.stderr).toContain(
      'Role judge was played by contains-match in run, so asking other for only the failed rollouts would mix two kinds of scores',
    );
  });

  it('never takes the verdict of a model that nobody named for that of the run', async () => {
    await using policy = await policyServer();
    await using judge = await chatServer(({ messages }) => (rowIn(messages) === '0' ? refused : said(0.25)));
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2', '--role', `judge=g@${judge.url}/v1`]);
    const before = folder.run_files();
    const { code, stdout } = await folder.score('run', '--failed', '--in-place');
    expect({ code, stdout: stdout.replace(/\s+/g, ' ') }).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(
        'Role judge has no recorded reply to this request. g played it in the run. Name the model to ask: --role judge=g@URL',
      ) as string,
    });
    expect(folder.run_files()).toEqual(before);
  });

  it('keeps the whole run where a rollout that has a score cannot be scored, and goes on from there', async () => {
    let isDown = true;
    await using policy = await policyServer();
    await using judge = await chatServer(({ messages }) => (isDown && rowIn(messages) === '2' ? refused : said(0)));
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '4']);
    const before = folder.run_files();
    const words = ['run', '--in-place', '--role', `judge=g@${judge.url}/v1`];
    const first = await folder.score(...words);
    expect(first).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('Nothing was changed: 1 of the rollouts that have a score could not be scored') as string,
    });
    expect({ ...folder.run_files(), 'scoring.jsonl.partial': undefined }).toEqual({ ...before, 'scoring.jsonl.partial': undefined });
    const other = await folder.score('run', '--in-place', '--weight', 'judge=2');
    expect([oneLine(other), other.stderr]).toEqual([
      { code: 2, stdout: '', lines: 1 },
      expect.stringContaining('unfinished scoring with other options') as string,
    ]);
    isDown = false;
    const calls = judge.bodies.length;
    expect(await folder.score(...words)).toMatchObject({ code: 0 });
    expect(judge.bodies.length - calls).toBe(1);
    expect([...folder.rollouts().values()].map(({ reward }) => reward)).toEqual([0.5, 0.5, 0.5, 0.5]);
    expect(Object.keys(folder.run_files()).toSorted()).toEqual(Object.keys(before).toSorted());
  });

  it('stops at once where a judge refuses the key, and keeps what was scored', async () => {
    await using policy = await policyServer();
    await using judge = await chatServer((_, index) => (index >= 5 ? { status: 401, body: { error: { message: 'wrong key' } } } : said(0)));
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '30', '-a', '{"rows": 30}']);
    folder.hasOwnProcess = true;
    const before = folder.run_files();
    const ended = await folder.score('run', '--in-place', '--max-scoring', '1', '--role', `judge=judge-model@${judge.url}/v1`);
    const { code, stdout } = ended;
    // A busy machine takes long enough for a note of progress.
    const stderr = ended.stderr.replaceAll(/^.*rollouts scored.*\n/gm, '');
    expect({ code, stdout, lines: stderr.trimEnd().split('\n').length }).toEqual({ code: 1, stdout: '', lines: 1 });
    expect(stderr).toContain('Fix this and run vf-score again: what was scored is kept.');
    expect(judge.bodies).toHaveLength(6);
    expect({ ...folder.run_files(), 'scoring.jsonl.partial': '' }).toEqual({ ...before, 'scoring.jsonl.partial': '' });
    expect(folder.lines('run', 'scoring.jsonl.partial')).toHaveLength(6);
  });

  it('goes on after kill -9: the run is the old one until all is scored, and nothing is asked twice', async () => {
    await using policy = await policyServer();
    await using judge = await chatServer(async (_, index) => {
      if (index > 20) await new Promise((resolve) => setTimeout(resolve, 20));
      return said(0);
    });
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '40', '-a', '{"rows": 40}']);
    const before = folder.run_files();
    const words = ['run', '--in-place', '--max-scoring', '2', '--role', `judge=g@${judge.url}/v1`];
    const journal = join(folder.path, 'run/scoring.jsonl.partial');
    const journaled = () => (existsSync(journal) ? readFileSync(journal, 'utf8').split('\n').slice(1, -1) : []);
    const running = folder.start(words, {}, 'vf-score');
    await until(() => journaled().length >= 22);
    running.child.kill('SIGKILL');
    await running.ended;
    const kept = new Set(journaled().map((line) => (JSON.parse(line) as { rollout_id: string }).rollout_id));
    for (const name of Object.keys(before)) expect(folder.text('run', name)).toBe(before[name]);
    // A line that the kill tore.
    writeFileSync(journal, '{"rollout_id":"r3', { flag: 'a' });
    const calls = judge.bodies.length;
    expect(await folder.score(...words)).toMatchObject({ code: 0, stdout: expect.stringContaining('40 rollouts') as string });
    const again = judge.bodies.slice(calls).map(({ messages }) => `r${rowIn(messages)}/0`);
    expect(again.filter((id) => kept.has(id))).toEqual([]);
    expect(again).toHaveLength(40 - kept.size);
    expect([...folder.rollouts().values()].every(({ reward }) => reward === 0.5)).toBe(true);
    expect([...folder.rollouts().keys()]).toEqual(
      before['results.jsonl']!.split('\n')
        .slice(0, -1)
        .map((line) => (JSON.parse(line) as WireResult).rollout_id),
    );
    expect(folder.asked().size).toBe(40);
  });

  it('finishes a replacement that a kill interrupted between two files, without asking anybody', async () => {
    await using policy = await policyServer();
    await using judge = await chatServer(({ messages }) => (rowIn(messages) === '2' ? refused : said(0)));
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '4']);
    const words = ['--in-place', '--role', `judge=g@${judge.url}/v1`];
    const metadata = folder.text('run', 'metadata.json');
    await folder.score('run', ...words);
    // As a kill leaves it once all is found: first before the results are replaced, then after, but before the metadata is.
    const closed = `${folder.text('run', 'scoring.jsonl.partial')}{"closed":true}\n`;
    const finished = async (name: string, results: string) => {
      cpSync(join(folder.path, 'run'), join(folder.path, name), { recursive: true });
      for (const [file, text] of Object.entries({ 'scoring.jsonl.partial': closed, 'results.jsonl': results, 'metadata.json': metadata }))
        folder.file(`${name}/${file}`, text);
      const calls = judge.bodies.length;
      expect(await folder.score(name, ...words)).toMatchObject({ code: 0 });
      expect(judge.bodies).toHaveLength(calls);
      expect(Object.keys(folder.run_files(name))).not.toContain('scoring.jsonl.partial');
      return { results: folder.text(name, 'results.jsonl'), asked: folder.text(name, 'asked.jsonl'), reward: folder.metadata(name).avg_reward };
    };
    const early = await finished('early', folder.text('run', 'results.jsonl'));
    const rewards = Object.fromEntries([...folder.rollouts('early')].map(([id, { reward }]) => [id, reward]));
    expect(rewards).toEqual({ 'r0/0': 0.5, 'r1/0': 0.5, 'r2/0': 1.5, 'r3/0': 0.5 });
    expect(await finished('late', early.results)).toEqual(early);
    expect(early.reward).toBe(0.75);
  });

  it('adds up with other weights without the rubric, the state or a judge', async () => {
    await using policy = await policyServer();
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2', '-a', '{"group": true}', '-r', '2']);
    rmSync(join(folder.path, 'run/played.jsonl'));
    const { code, stderr } = await folder.score('run', '--weight', 'judge=0.25', '--weight', 'turns=1', '-o', 'new');
    expect(stderr.match(/is a metric of weight 0.*/g)).toEqual(['is a metric of weight 0; with 1 times its value it is now part of the reward']);
    expect(code).toBe(0);
    const rewards = [...folder.rollouts('new').values()].map(({ reward }) => reward);
    for (const reward of rewards) expect(reward).toBeCloseTo(0.25 + 0.5 + 1 + 0.1 * 2, 12);
    expect(folder.metadata('new').config['scoring']).toEqual({ weights: { judge: 0.25, turns: 1 } });
    const resumed = await folder.run([
      'judged',
      '-n',
      '2',
      '-r',
      '2',
      '-a',
      '{"group": true}',
      '-b',
      `${policy.url}/v1`,
      '-m',
      'm',
      '-t',
      '8',
      '--api-client-type',
      'chat',
      '-R',
      'new',
    ]);
    expect([resumed.code, resumed.stderr]).toEqual([2, expect.stringContaining('was scored by vf-score with {"weights":') as string]);
  });

  it('scores with a rubric of the user, whose failures and values that are not numbers are never a 0', async () => {
    await using policy = await policyServer();
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '3']);
    folder.file(
      'strict.ts',
      "import { metric, reward, Rubric } from 'vf-search';\nexport const rubric = new Rubric({ funcs: [reward(({ row, modelText }) => row.exampleId === 'r1' ? NaN : modelText.length, { name: 'length' }), metric(({ state }) => Number(state.turns), { name: 'turns' })] });\n",
    );
    const { code, stdout } = await folder.score('run', '--rubric', 'strict.ts', '-o', 'strict');
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('gave NaN, which is not a finite number') as string });
    const found = folder.rollouts('strict');
    expect([...found.values()].map(({ reward, error }) => [reward, error?.phase ?? null])).toEqual([
      [15, null],
      [null, 'scoring'],
      [15, null],
    ]);
    expect(found.get('r0/0')).toMatchObject({ metrics: { length: 15, turns: 1 }, length: 15 });
    expect(Object.keys(found.get('r0/0')!)).not.toContain('judge');
    expect(folder.metadata('strict')).toMatchObject({
      num_finished: 2,
      num_errored: 1,
      avg_reward: 15,
      config: { scoring: { rubric: 'strict.ts' } },
    });
    const inPlace = await folder.score('run', '--rubric', 'strict.ts', '--in-place');
    expect(inPlace).toMatchObject({ code: 1, stdout: expect.stringContaining('Nothing was changed') as string });
  });

  it('scores a group together: where one member was not judged, all of its group are scored again', async () => {
    const down = new Set(['1']);
    await using policy = await chatServer((_, index) => `Paris ${index}`);
    await using judge = await chatServer(({ messages }, index) => (down.has(rowIn(messages)) && index % 2 === 0 ? refused : said(1)));
    using folder = new ScoreFolder();
    const role = ['--role', `judge=g@${judge.url}/v1`];
    await folder.play(policy, ['-n', '2', '-r', '4', '-c', '1', '-a', '{"group": true}', ...role]);
    const before = folder.rollouts();
    const missed = [...before.values()].filter(({ error }) => error !== null);
    expect(missed.length).toBeGreaterThan(0);
    expect(before.get('r0/0')!.metrics['members']).toBe(4);
    down.clear();
    const calls = judge.bodies.length;
    expect(await folder.score('run', '--failed', '--in-place', ...role)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^scored +4 rollouts/) as string,
    });
    const after = folder.rollouts();
    expect([...after.values()].map(({ metrics, scored_with: together }) => [metrics['members'], together])).toEqual(
      Array.from({ length: 8 }, () => [4, 4]),
    );
    expect(after.get('r0/0')).toEqual(before.get('r0/0'));
    // The verdicts on file are used again.
    expect(judge.bodies.length - calls).toBe(missed.length);
  });

  it('runs the hook of the environment again for rollouts that it failed, with the replies on file for the rest', async () => {
    let isDown = true;
    await using policy = await policyServer();
    await using generator = await chatServer((_, index) => (isDown && index === 1 ? refused : 'abc'));
    using folder = new ScoreFolder();
    const role = ['--role', `generator=gen@${generator.url}/v1`];
    await folder.play(policy, ['-n', '3', '-c', '1', '-a', '{"hook": true}', '--max-scoring', '1', ...role]);
    const failed = [...folder.rollouts().values()].filter(({ error }) => error !== null).map(({ rollout_id: id }) => id);
    expect(failed.length).toBeGreaterThan(0);
    isDown = false;
    expect(await folder.score('run', '--failed', '--in-place', ...role)).toMatchObject({ code: 0 });
    expect([...folder.rollouts().values()].map(({ metrics }) => metrics['generated'])).toEqual([3, 3, 3]);
    const states = folder.lines('run', 'played.jsonl').map((line) => (JSON.parse(line) as { state: { generated?: string } }).state.generated);
    expect(states).toEqual(['abc', 'abc', 'abc']);
    const calls = generator.bodies.length;
    const before = folder.run_files();
    expect(await folder.score('run', '--in-place')).toMatchObject({ code: 0 });
    expect([generator.bodies.length, folder.run_files()]).toEqual([calls, before]);
  });

  it('scores texts of a run that saved no state, but no reward that would read it', async () => {
    await using policy = await policyServer();
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2']);
    rmSync(join(folder.path, 'run/played.jsonl'));
    folder.file(
      'state.ts',
      "import { reward, Rubric } from 'vf-search';\nexport const rubric = new Rubric({ funcs: [reward(({ state }) => Number(state.turns ?? 0), { name: 'turns' })] });\n",
    );
    expect(await folder.score('run', '--rubric', 'state.ts', '--in-place')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(`reads "turns" of the episode's state, which the run did not save`) as string,
    });
    const before = folder.run_files();
    expect(await folder.score('run', '--in-place')).toMatchObject({ code: 0 });
    expect(folder.run_files()).toEqual(before);
  });

  it('answers a mistake with one line and exit code 2, and changes nothing', async () => {
    await using policy = await policyServer();
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2', '-a', '{"service_token": "secret-token-1"}']);
    folder.changed('other', (line) => ({ ...line, answer: 'Rome' }));
    folder.changed('strange', (line) => ({ ...line, group_id: 'x', example_id: 'x' }));
    folder.changed('torn', (line) => line);
    folder.file('torn/results.jsonl', 'torn\n');
    folder.file('empty.ts', 'export const other = 1;\n');
    folder.file('broken.ts', "throw new Error('no');\n");
    const token = ['-a', '{"service_token": "secret-token-1"}'];
    const before = folder.files();
    const cases: [string[], RegExp][] = [
      [['none'], /The directory none does not exist/],
      [['run'], /The argument service_token of run was a secret, which is not on file/],
      [['run', ...token, '--in-place', '-o', 'x'], /exclude each other/],
      [['run', ...token, '-o', 'other'], /other already exists/],
      [['run', ...token, '-o', ''], /-o needs a value: folder of the new run/],
      [['run', ...token, '-o', 'empty.ts/new'], /cannot be written to empty\.ts\/new: .*empty\.ts is not a folder/],
      [['run', ...token, '--weight', 'judg=1'], /The rubric has no reward "judg" \(did you mean judge\?\)/],
      [['run', ...token, '--weight', 'judge'], /--weight must be name=number, such as format=0\.2, got "judge"/],
      [['run', ...token, '--role', 'judge=policy'], /vf-score plays no policy/],
      [['run', ...token, '--role', 'jduge=builtin'], /no role jduge/i],
      [['run', ...token, '--rubric', 'none.ts'], /The file none\.ts does not exist/],
      [['run', ...token, '--rubric', 'empty.ts'], /empty\.ts exports no rubric/],
      [['run', ...token, '--rubric', 'broken.ts'], /The rubric broken\.ts did not load: no/],
      [['run', ...token, '--failed', '--in-place', '--weight', 'judge=2'], /would mix two kinds of scores/],
      [['other', ...token, '--in-place'], /Row "r\d" of the environment has another answer or info than in other/],
      [['strange', ...token, '--in-place'], /strange has a row "x" that the environment does not have now/],
      [['strange', ...token], /strange has a row "x" that the environment does not have now/],
      [['torn', ...token], /Line 1 of torn\/results\.jsonl is not a record of a rollout: text that is not JSON\. Restore the file/],
      [['run', ...token, '-e', 'none.toml'], /Could not read the TOML file none\.toml: there is no such file/],
    ];
    for (const [words, message] of cases) {
      const ended = await folder.score(...words);
      expect({ words, ...oneLine(ended) }).toEqual({ words, code: 2, stdout: '', lines: 1 });
      expect(ended.stderr).toMatch(message);
    }
    expect(folder.files()).toEqual(before);
  });
});
