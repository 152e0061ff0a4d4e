/** vf-score with another environment than the one that was played: the run says so, and no run holds rewards of both. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { WireMetadata } from '../../../src/schemas/results.ts';
import { chatServer } from '../../models/chat-server.ts';
import { oneLine, policyServer, refused, rowIn, said, ScoreFolder } from './score-folder.ts';

const KILL_AT = pathToFileURL(join(import.meta.dirname, 'kill-at.mjs')).href;
const OWN = 'environments/judged/environment.mjs';

/** Another environment with the same rows and the same id, whose reward `ended` weighs more. */
function writeOther(folder: ScoreFolder): string {
  mkdirSync(join(folder.path, 'other'));
  return folder.file(
    'other/environment.mjs',
    readFileSync(join(folder.path, OWN), 'utf8').replace('weight: 0.5', 'weight: 0.9').replace('./weight', '../environments/judged/weight'),
  );
}

/** Kills a scoring in place that has found a score. */
async function killScoring(folder: ScoreFolder): Promise<void> {
  // Two changes come before the first score.
  for (let n = 3; ; n++) {
    const words = ['run', '--in-place', '--ask-again', '--max-scoring', '1'];
    await folder.start(words, { NODE_OPTIONS: `--import ${KILL_AT}`, KILL_AT: String(n) }, 'vf-score').ended;
    const journal = folder.run_files()['scoring.jsonl.partial'] ?? '';
    if (journal.includes('"closed"')) throw new Error('The scoring had ended before it was killed');
    if (journal.split('\n').length > 2) return;
  }
}

describe.concurrent('vf-score', { timeout: 300_000 }, () => {
  it('records another environment, with which vf-eval -R does not continue the run', async () => {
    await using policy = await policyServer();
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2']);
    expect(await folder.score('run', '--in-place', '--env', `./${OWN}`)).toMatchObject({ code: 0 });
    expect(folder.metadata().config['scoring']).toBeUndefined();
    expect(await folder.score('run', '--in-place', '--env', writeOther(folder), '--weight', 'judge=0')).toMatchObject({ code: 0 });
    expect(folder.metadata().config['scoring']).toEqual({
      environment: 'judged',
      environment_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
      weights: { judge: 0 },
    });
    expect([...folder.rollouts().values()].map(({ reward }) => reward)).toEqual([0.9, 0.9]);
    const words = ['judged', '-n', '3', '-b', `${policy.url}/v1`, '-m', 'm', '-t', '8', '--api-client-type', 'chat', '-R', 'run'];
    const resumed = await folder.run(words);
    expect({ code: resumed.code, stderr: resumed.stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining('was scored by vf-score with {"environment":"judged"') as string,
    });
    expect(await folder.score('run', '--in-place')).toMatchObject({ code: 0 });
    expect(await folder.run(words)).toMatchObject({ code: 0 });
  });

  it('records the files that scored, by which vf-compare and -R go from then on', async () => {
    await using policy = await policyServer();
    using folder = new ScoreFolder();
    await folder.play(policy, ['-n', '2']);
    const correct = (more: string) => folder.file(OWN, `${readFileSync(join(folder.path, OWN), 'utf8')}${more}\n`);
    correct('// corrected');
    expect(await folder.score('run', '-o', 'again')).toMatchObject({ code: 0 });
    const scorings = (run: string) => (JSON.parse(readFileSync(join(folder.path, run, 'metadata.json'), 'utf8')) as WireMetadata).scorings;
    const inputs = { env_id: { 'environment.mjs': expect.stringMatching(/^[0-9a-f]{64}$/) as string } };
    // The scores are the same, and the files are not.
    expect(scorings('again')).toMatchObject([{ changed: 0, inputs }]);
    const compared = async (...runs: string[]) => (await folder.run(runs, {}, 'vf-compare')).stdout.replace(/\s+/g, ' ');
    expect(await compared('run', 'again')).toContain('were scored by different versions of their environment (environment.mjs changed)');
    const words = ['judged', '-n', '2', '-b', `${policy.url}/v1`, '-m', 'm', '-t', '8', '--api-client-type', 'chat', '-R', 'run'];
    const warning = 'the module of the environment has changed since';
    expect((await folder.run(words)).stderr).toContain(warning);
    expect(await folder.score('run', '--in-place')).toMatchObject({ code: 0 });
    expect(await compared('run', 'again')).not.toContain('different versions');
    expect((await folder.run(words)).stderr).not.toContain(warning);
    // Other weights of the same metrics leave the versions as they are.
    expect(await folder.score('run', '-o', 'weighed', '--weight', 'judge=0.5')).toMatchObject({ code: 0 });
    expect(scorings('weighed')).toMatchObject([{ inputs }, { inputs: {}, partial: true }]);
    expect(await compared('run', 'weighed')).not.toContain('different versions');
    const [rubric, other] = ['rubric', 'other'].map((name) => {
      mkdirSync(join(folder.path, name));
      return folder.file(
        `${name}/rubric.ts`,
        `import { reward, Rubric } from 'vf-search';\nexport const rubric = new Rubric({ funcs: [reward(() => 0.25, { name: '${name}' })] });\n`,
      );
    });
    expect(await folder.score('run', '-o', 'one', '--rubric', rubric!)).toMatchObject({ code: 0 });
    expect(await folder.score('run', '-o', 'two', '--rubric', other!)).toMatchObject({ code: 0 });
    expect(await compared('one', 'two')).toContain('(rubric.ts changed)');
  });

  it('scores failed rollouts only with the environment of the others', async () => {
    let isDown = true;
    await using policy = await policyServer();
    await using judge = await chatServer(({ messages }) => (isDown && rowIn(messages) === '1' ? refused : said(0.5)));
    using folder = new ScoreFolder();
    const role = ['--role', `judge=g@${judge.url}/v1`];
    await folder.play(policy, ['-n', '2', ...role]);
    isDown = false;
    const words = ['run', '--failed', '--in-place', ...role];
    const before = folder.run_files();
    const ended = await folder.score(...words, '--env', writeOther(folder));
    expect(oneLine(ended)).toEqual({ code: 2, stdout: '', lines: 1 });
    expect(ended.stderr).toContain('would mix two kinds of scores in one run');
    expect(folder.run_files()).toEqual(before);
    expect(await folder.score(...words, '--env', `./${OWN}`)).toMatchObject({ code: 0 });
  });

  it('does not go on with another environment after a kill, nor with one whose module or whose weights have changed', async () => {
    await using policy = await policyServer();
    using folder = new ScoreFolder();
    const weight = 'environments/judged/weight.mjs';
    const module = `import { weight } from './weight.mjs';\n${readFileSync(join(folder.path, OWN), 'utf8').replace("name: 'ended', weight: 0.5", "name: 'ended', weight")}`;
    const kept = { [weight]: 'export const weight = 0.5;\n', [OWN]: module };
    for (const [path, text] of Object.entries(kept)) folder.file(path, text);
    await folder.play(policy, ['-n', '2']);
    // What a process has imported once, it does not read again.
    folder.hasOwnProcess = true;
    await killScoring(folder);
    const results = folder.text('run', 'results.jsonl');
    const journal = folder.text('run', 'scoring.jsonl.partial');
    const changes: [changed: Record<string, string>, words: string[]][] = [
      [{}, ['--env', writeOther(folder)]],
      [{ [OWN]: `${module}// changed\n` }, []],
      [{ [weight]: 'export const weight = 0.9;\n' }, []],
    ];
    for (const [changed, words] of changes) {
      for (const [path, text] of Object.entries({ ...kept, ...changed })) folder.file(path, text);
      const ended = await folder.score('run', '--in-place', '--ask-again', '--max-scoring', '1', ...words);
      expect([changed, oneLine(ended)]).toEqual([changed, { code: 2, stdout: '', lines: 1 }]);
      expect(ended.stderr).toContain('run has an unfinished scoring with other options');
      expect([folder.text('run', 'results.jsonl'), folder.text('run', 'scoring.jsonl.partial')]).toEqual([results, journal]);
    }
    // Unchanged, the scoring goes on: what was refused is the change.
    for (const [path, text] of Object.entries(kept)) folder.file(path, text);
    expect(await folder.score('run', '--in-place', '--ask-again', '--max-scoring', '1')).toMatchObject({ code: 0 });
  });
});
