import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loopback, refusingUrl, until } from '../transport/loopback.ts';
import { EvalFolder } from './vf-eval-process.ts';

describe.concurrent('vf-eval', () => {
  it('teaches with --help, on stdout, in 80 columns', async () => {
    using folder = new EvalFolder();
    const { code, stdout, stderr } = await folder.run(['--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const part of ['Examples', '-n, --num-examples', '-R, --resume [DIR]', 'Exit codes', 'VF_BASE_URL']) expect(stdout).toContain(part);
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('plays the baseline where nothing is configured, says so, and saves every rollout', async () => {
    using folder = new EvalFolder();
    const { code, stdout, stderr } = await folder.run(['capitals', '-n', '3']);
    expect(code).toBe(0);
    expect(stderr).toContain('No model is configured, so the built-in extractive baseline plays');
    expect(stderr).toContain('-p vllm -m NAME');
    expect(stdout).toMatch(/^reward +1\.000 /m);
    expect(stdout).toContain('note       capitals is a toy.');
    expect(folder.results().map((r) => [r['example_id'], r['reward']])).toEqual(
      expect.arrayContaining([
        ['c0', 1],
        ['c1', 1],
        ['c2', 1],
      ]),
    );
    expect(stdout).toMatch(/^results +outputs\/evals\/capitals--extractive-baseline\/[0-9a-f]{8}$/m);
  });

  it('names the row and the field of a prompt that cannot be shown, and writes nothing', async () => {
    using folder = new EvalFolder();
    folder.hasOwnProcess = true;
    folder.file(
      'environments/odd/environment.mjs',
      `import { Dataset, Rubric, SingleTurnEnv } from 'vf-search';
      const rows = ['Who?', 42].map((content, i) => ({ exampleId: 'q' + i, prompt: [{ role: 'user', content }] }));
      export const loadEnvironment = () => new SingleTurnEnv({ id: 'odd', eval: new Dataset('odd-rows', rows), rubric: new Rubric({ funcs: [() => 1] }) });`,
    );
    const { code, stderr } = await folder.run(['odd']);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(
        /^vf-eval: Row "q1" of odd-rows cannot be played: prompt\[0\]\.content must be a string or a list of parts, got 42\. Correct the row\.\n$/,
      ),
    });
    expect(folder.files().size).toBe(0);
  });

  it('prints one JSON object and nothing else with --json', async () => {
    using folder = new EvalFolder();
    const { code, stdout } = await folder.run(['capitals', '-n', '2', '-r', '2', '--seed', '7', '--json']);
    expect(code).toBe(0);
    expect(stdout.split('\n')).toHaveLength(2);
    expect(JSON.parse(stdout)).toMatchObject({
      env_id: 'capitals',
      model: 'extractive-baseline',
      seed: 7,
      sampling_args: { temperature: 1, top_p: 1 },
      rollouts: { planned: 4, finished: 4, errored: 0 },
      reward: { value: 1, n: 4 },
      pass_at_k: { 2: { value: 1 } },
      complete: true,
    });
  });

  it('plays all rows with -n -1, and no row twice where more are asked for', async () => {
    using folder = new EvalFolder();
    const all = await folder.run(['capitals', '-n', '-1', '--json', '-a', '{"rows": 7}']);
    expect(JSON.parse(all.stdout)).toMatchObject({ rollouts: { planned: 7 } });
    const more = await folder.run(['capitals', '-n', '9', '--json', '-x', '{"rows": 7}']);
    expect(JSON.parse(more.stdout)).toMatchObject({ rollouts: { planned: 7 } });
    expect(more.stderr).toContain('capitals has only 7 rows, 2 fewer than requested');
  });

  it('gives exit code 2 with --dry-run where the policy server does not answer, as for all that is missing', async () => {
    using folder = new EvalFolder();
    const { code, stderr } = await folder.run(['capitals', '--dry-run', '-b', 'http://127.0.0.1:9/v1', '-m', 'x']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^vf-eval: The policy server at http:\/\/127\.0\.0\.1:9\/v1 \(-b\) cannot be reached: .*\n$/);
  });

  it('plays nothing and writes nothing with --dry-run, but shows the first prompt', async () => {
    using folder = new EvalFolder();
    const { code, stdout } = await folder.run(['capitals', '--dry-run', '-T', '0.5']);
    expect(code).toBe(0);
    expect(stdout).toContain('Question: What is the capital of France?');
    expect(stdout).toContain('"temperature":0.5');
    expect(folder.files().size).toBe(0);
  });

  it.each([
    [['capitals', '--num-exmaples', '3'], 'Unknown flag --num-exmaples (did you mean --num-examples?)'],
    [['captials'], 'captials'],
    [['capitals', '-a', '{"row": 3}'], 'Unknown argument "row" of capitals'],
    [['capitals', '-x', 'turns=3'], 'Unknown argument "turns" of capitals'],
    [['capitals', '-m', 'nowhere'], 'The model "nowhere" (-m) has no server'],
    [['capitals', '-m', 'nowhere'], '; for aliases of your own, create configs/endpoints.toml here'],
    [['capitals', '-R', 'not-a-run'], 'not-a-run'],
    [['capitals', '-m', 'x', '-e', 'nothing.toml'], 'Could not read the TOML file nothing.toml'],
    [['capitals', '-a', '{"rows": 0}'], 'capitals has no rows to evaluate'],
  ])('answers %j with one line and exit code 2', async (args, message) => {
    using folder = new EvalFolder();
    const { code, stdout, stderr } = await folder.run(args);
    expect({ code, stdout, lines: stderr.trimEnd().split('\n').length }).toEqual({ code: 2, stdout: '', lines: 1 });
    expect(stderr).toMatch(/^vf-eval: /);
    expect(stderr).toContain(message);
    expect(folder.files().size).toBe(0);
  });

  it('stops at once with one line where no server listens, and leaves nothing behind', async () => {
    using folder = new EvalFolder();
    const { code, stdout, stderr } = await folder.run(['capitals', '-b', `${await refusingUrl()}/v1`, '-m', 'M']);
    expect({ code, stdout, lines: stderr.trimEnd().split('\n').length }).toEqual({ code: 1, stdout: '', lines: 1 });
    expect(stderr).toMatch(/^vf-eval: The policy server at http:\/\/127\.0\.0\.1:\d+\/v1 \(-b\) cannot be reached: .*ECONNREFUSED/);
    expect(folder.files().size).toBe(0);
  });

  it('saves what finished when it is interrupted, says how to continue, and continues from there', async () => {
    using folder = new EvalFolder();
    const args = ['capitals', '-n', '-1', '-c', '2', '-a', '{"delay_ms": 20}'];
    const { child, ended } = folder.start(args);
    await until(() => folder.results().length >= 4);
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    expect(code).toBe(130);
    const saved = folder.results();
    expect(saved.length).toBeLessThan(40);
    expect(stderr).toContain(`stopped: ${saved.length} of 40 rollouts saved`);
    const command = /node \S+vf-eval\.js (capitals .*) -R (outputs\/\S+)/.exec(stderr)!;
    expect(command[1]).toBe(`capitals -n -1 -c 2 -a '{"delay_ms": 20}'`);

    const again = await folder.run([...args, '-R', command[2]!, '--json']);
    expect(again.code).toBe(0);
    expect(again.stderr).toContain(`kept ${saved.length} finished rollouts`);
    const rows = folder.results();
    expect(rows.slice(0, saved.length)).toEqual(saved);
    expect(rows).toHaveLength(40);
    expect(new Set(rows.map((r) => r['example_id'])).size).toBe(40);
  });

  it('a bare -R continues the run with the same settings, also a finished one, and starts a new run for other settings', async () => {
    using folder = new EvalFolder();
    const directoryOf = ({ stdout }: { stdout: string }) => (JSON.parse(stdout) as { directory: string }).directory;
    const first = directoryOf(await folder.run(['capitals', '-n', '2', '--json']));
    const again = await folder.run(['capitals', '-n', '2', '--json', '-R']);
    expect(again.stderr).toContain('kept 2 finished rollouts');
    expect(directoryOf(again)).toBe(first);
    const other = await folder.run(['capitals', '-n', '2', '-r', '2', '--json', '-R']);
    expect(other.stderr).toMatch(/found no run of capitals with \S+ and the same settings under .*; starting a new one/);
    expect(directoryOf(other)).not.toBe(first);
    writeFileSync(join(first, 'metadata.json'), '{"version_');
    rmSync(directoryOf(other), { recursive: true });
    const damaged = await folder.run(['capitals', '-n', '2', '--json', '-R']);
    expect(damaged.stderr).toMatch(/the same settings under \S+ \(\S+metadata\.json is not the metadata of a run: .*\); starting a new one/);
  });

  it('-R continues each run of a file that sweeps a setting', async () => {
    using folder = new EvalFolder();
    folder.write('sweep.toml', '[[ablation]]\nenv_id = "capitals"\nnum_examples = 2\n[ablation.sweep]\ntemperature = [0.0, 1.0]\n');
    const directories = ({ stdout }: { stdout: string }) =>
      (JSON.parse(stdout) as { runs: { directory: string }[] }).runs.map((run) => run.directory);
    const first = directories(await folder.run(['sweep.toml', '--json']));
    const again = await folder.run(['sweep.toml', '--json', '-R']);
    expect(again.code).toBe(0);
    expect(directories(again)).toEqual(first);
  });

  it('keeps the number of rows of a run that it resumes without -n, and knows a run from an environment', async () => {
    using folder = new EvalFolder();
    const { directory } = JSON.parse((await folder.run(['capitals', '-n', '8', '--json'])).stdout) as { directory: string };
    const again = await folder.run(['capitals', '-R', directory, '--json']);
    expect(JSON.parse(again.stdout)).toMatchObject({ num_examples: 8, rollouts: { planned: 8, recorded: 8 }, complete: true });
    const mistaken = await folder.run(['-R', directory]);
    expect(mistaken.code).toBe(2);
    expect(mistaken.stderr).toContain(`is a run of capitals, not an environment. Continue it with vf-eval capitals -R ${directory}`);
  });

  it('ends at once at the second Ctrl-C', async () => {
    using folder = new EvalFolder();
    const { child, ended } = folder.start(['capitals', '-a', '{"deaf": true}']);
    let heard = '';
    child.stderr!.on('data', (chunk: string) => (heard += chunk));
    await until(() => heard.includes('saving to'));
    child.kill('SIGINT');
    await until(() => heard.includes('Ctrl-C again to stop at once') || child.exitCode !== null);
    child.kill('SIGINT');
    expect((await ended).code).toBe(130);
  });

  it('stays quiet when its output is not read', async () => {
    using folder = new EvalFolder();
    const { child, ended } = folder.start(['capitals', '-n', '2']);
    child.stdout!.destroy();
    const { code, stderr } = await ended;
    expect(code).toBe(0);
    expect(stderr).not.toContain('EPIPE');
    expect(folder.results()).toHaveLength(2);
  });

  it('plays every run of a TOML file and refuses run flags next to it', async () => {
    using folder = new EvalFolder();
    folder.file(
      'runs.toml',
      'num_examples = 2\n[[eval]]\nenv_id = "capitals"\nname = "one"\n[[eval]]\nenv_id = "nothing"\n[[ablation]]\nenv_id = "capitals"\n[ablation.sweep]\nrollouts_per_example = [1, 2]\n',
    );
    const { code, stdout, stderr } = await folder.run(['runs.toml', '--json']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^vf-eval: .*nothing/m);
    expect(JSON.parse(stdout)).toMatchObject({
      runs: [
        { name: 'one', rollouts: { finished: 2 } },
        { name: 'rollouts 1', rollouts: { finished: 2 } },
        { name: 'rollouts 2', rollouts: { finished: 4 } },
      ],
    });
    const refused = await folder.run(['runs.toml', '-n', '5']);
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain('--num-examples cannot be combined with runs.toml');
  });

  it('reads .env, and the environment wins over it', async () => {
    using folder = new EvalFolder();
    folder.file('.env', `VF_BASE_URL=${await refusingUrl()}/v1\nVF_MODEL=M\n`);
    expect((await folder.run(['capitals'])).stderr).toContain('(VF_BASE_URL) cannot be reached');
    await using silent = await loopback((_request, response) => response.writeHead(401).end('{"error": {"message": "no entry"}}'));
    const { code, stderr } = await folder.run(['capitals', '--max-retries', '0'], { VF_BASE_URL: `${silent.url}/v1` });
    expect(code).toBe(1);
    expect(stderr).toMatch(/The server rejected the API key: .*401.* Set -k to the name of the variable that holds the key\.\n/);
    const keyed = await folder.run(['capitals', '-b', `${silent.url}/v1`, '-k', 'MY_KEY'], { MY_KEY: 'sk-wrong' });
    expect(keyed.stderr).toContain('Check the key in MY_KEY.');
    expect(existsSync(join(folder.path, 'outputs'))).toBe(false);
  });
});
