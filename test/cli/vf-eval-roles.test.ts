/** vf-eval and the models other than the policy: the players of roles, the records, and the effect of a failure. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { WireAskedLine } from '../../src/schemas/asked-line.ts';
import type { WireMetadata } from '../../src/schemas/results.ts';
import { chatServer, type ChatServer } from '../models/chat-server.ts';
import { until } from '../transport/loopback.ts';
import { EvalFolder } from './vf-eval-process.ts';

/** Rows whose answers a judge scores; a builtin one compares. Arguments: `needed` has no default; `early` asks while it loads. */
const ENVIRONMENT = `
import { Dataset, exactMatchJudge, JudgeRubric, SingleTurnEnv } from 'vf-search';
const about = 'scores how well an answer agrees with the reference answer';
export const roles = { judge: { about, default: 'builtin', builtin: exactMatchJudge({ match: 'contains' }) }, critic: { about: 'criticises', default: 'policy' } };
export async function loadEnvironment({ needed = false, early = false, rows = 4 }, { models, signal }) {
  if (early) await models.judge.generate([{ role: 'user', content: 'hello' }], { maxTokens: 1, signal });
  const row = (i) => ({ exampleId: 'r' + i, prompt: [{ role: 'user', content: 'Capital of France, ' + i + '?' }], answer: 'Paris' });
  const own = needed ? { judge: { about: about + '.', default: null } } : { critic: { about: 'criticises', default: 'builtin', builtin: exactMatchJudge() } };
  return new SingleTurnEnv({ id: 'judged', eval: new Dataset('rows', Array.from({ length: rows }, (_, i) => row(i))), rubric: new JudgeRubric(), roles: own });
}
`;

function judgedFolder(): EvalFolder {
  const folder = new EvalFolder();
  folder.file('environments/judged/environment.mjs', ENVIRONMENT);
  return folder;
}

function runFile<T>(folder: EvalFolder, name: string): T[] {
  const [base] = readdirSync(join(folder.path, 'outputs/evals'));
  const runs = join(folder.path, 'outputs/evals', base!);
  const text = readFileSync(join(runs, readdirSync(runs)[0]!, name), 'utf8');
  return name.endsWith('.jsonl')
    ? text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as T)
    : [JSON.parse(text) as T];
}

/** Says `Paris` as the policy and `score` as a judge. */
const answering = (score: number): Promise<ChatServer> =>
  chatServer(({ messages }) => (messages[0]!.role === 'system' ? JSON.stringify({ reason: 'so', score }) : 'Paris, I think.'));

const unwrapped = (text: string) => text.replace(/\s+/g, ' ');

const policyAt = ({ url }: ChatServer) => ['-b', `${url}/v1`, '-m', 'm', '-t', '8', '--api-client-type', 'chat'];

describe.concurrent('vf-eval and models by role', () => {
  it('plays with what the environment brings, and records what was asked', async () => {
    await using server = await answering(0.5);
    using folder = judgedFolder();
    const { code, stdout, stderr } = await folder.run(['judged', '-n', '2', ...policyAt(server)]);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stdout).toMatch(/^reward +1\.000 /m);
    expect(stdout).toMatch(/^role +judge: contains-match \(builtin\), the environment's default$/m);
    expect(stdout).toMatch(/^asked +judge \(contains-match\): 2 calls; /m);
    const asked = runFile<WireAskedLine>(folder, 'asked.jsonl');
    expect(asked.map(({ rollout_id: id }) => id).toSorted()).toEqual(['r0/0', 'r1/0']);
    expect(asked[0]).toMatchObject({ schema_version: 1, asked: [{ role: 'judge', model: 'contains-match', version: null, attempts: 1 }] });
    // Two rollouts, and no request to a judge on a server.
    expect(server.bodies).toHaveLength(2);
  });

  it('asks another model by a flag, with the schema of the reply; equal questions cost one request', async () => {
    await using server = await answering(1);
    await using judge = await answering(0.5);
    using folder = judgedFolder();
    const { code, stdout } = await folder.run([
      'judged',
      '-n',
      '2',
      '-r',
      '3',
      ...policyAt(server),
      '--role',
      `judge=grader@${judge.url}/v1`,
      '--json',
    ]);
    const summary = JSON.parse(stdout) as { reward: { value: number }; roles: Record<string, unknown> };
    expect({ code, reward: summary.reward.value }).toEqual({ code: 0, reward: 0.5 });
    expect(summary.roles['judge']).toMatchObject({ models: ['grader'], calls: 6, cache_hits: 4, requests: 2, tokens: { input: 14, output: 6 } });
    expect(judge.bodies).toHaveLength(2);
    expect(judge.bodies[0]).toMatchObject({ model: 'grader', temperature: 0, response_format: { type: 'json_schema' } });
    const [metadata] = runFile<WireMetadata>(folder, 'metadata.json');
    expect(metadata!.roles!['judge']).toMatchObject({ calls: 6, cache_hits: 4 });
    expect(metadata!.config['roles']).toEqual({ judge: 'grader', critic: 'exact-match' });
  });

  it('lets the policy play a role, with calls that are in no rollout', async () => {
    await using server = await answering(0.25);
    using folder = judgedFolder();
    const { code, stdout } = await folder.run(['judged', '-n', '1', ...policyAt(server), '--role', 'judge=policy']);
    expect({ code, reward: /^reward +(\S+)/m.exec(stdout)?.[1] }).toEqual({ code: 0, reward: '0.250' });
    expect(folder.results()[0]).toMatchObject({ num_turns: 1, token_usage: { input_tokens: 7, output_tokens: 3 } });
    expect(runFile<WireAskedLine>(folder, 'asked.jsonl')[0]!.asked[0]).toMatchObject({ model: 'm', version: 0 });
  });

  it('a judge that fails leaves its rollouts without a reward, and a resume asks only for these', async () => {
    let isDown = true;
    await using server = await answering(1);
    await using judge = await chatServer(({ messages }) =>
      isDown && JSON.stringify(messages).includes('France, 1?')
        ? { status: 400, body: { error: { message: 'no, sk-judge-secret-1 is no good' } } }
        : '{"reason": "so", "score": 1}',
    );
    using folder = judgedFolder();
    folder.hasOwnProcess = true;
    folder.file('configs/endpoints.toml', `[[endpoint]]\nendpoint_id = "grader"\nmodel = "g"\nurl = "${judge.url}/v1"\nkey = "JUDGE_KEY"\n`);
    const words = ['judged', '-n', '3', '-c', '1', ...policyAt(server), '--role', 'judge=grader'];
    const variables = { JUDGE_KEY: 'sk-judge-secret-1' };
    const first = await folder.run(words, variables);
    expect(first.stdout).toMatch(/^rollouts +2 finished, 1 failed/m);
    expect(unwrapped(first.stdout)).toContain('error 1 × ModelError: Reward "judge" failed: The model of role judge (g) failed: ');
    const failed = folder.results().find(({ rollout_id: id }) => id === 'r1/0')!;
    expect(failed).toMatchObject({ reward: null, error: { error: 'ModelError', phase: 'scoring', reason: 'failed' } });
    expect(JSON.stringify(failed)).toContain('ModelError');
    isDown = false;
    const before = judge.bodies.length;
    folder.hasOwnProcess = false;
    const second = await folder.run([...words, '-R'], variables);
    expect(second.stdout).toMatch(/^rollouts +3 finished, 0 failed/m);
    expect(second.stdout).toMatch(/^asked +judge \(g\): 3 calls; /m);
    expect(judge.bodies.length - before).toBe(1);
    expect(
      runFile<WireAskedLine>(folder, 'asked.jsonl')
        .map(({ rollout_id: id }) => id)
        .toSorted(),
    ).toEqual(['r0/0', 'r1/0', 'r2/0']);
    for (const text of [first.stdout, first.stderr, second.stdout, second.stderr, ...folder.files().values()]) expect(text).not.toContain('sk-judge');
  });

  it('a judge that stays overloaded is asked as often as its role may, and no rollout is played or scored again for it', async () => {
    await using server = await answering(1);
    await using judge = await chatServer(() => ({ status: 503, body: { error: { message: 'overloaded' } } }));
    using folder = judgedFolder();
    folder.file(
      'runs.toml',
      `model = "m"\napi_base_url = "${server.url}/v1"\napi_client_type = "chat"\n[[eval]]\nenv_id = "judged"\nnum_examples = 1\n[eval.roles.judge]\nbase_url = "${judge.url}/v1"\nmodel = "g"\nmax_retries = 1\n`,
    );
    const { code, stdout } = await folder.run(['runs.toml']);
    expect(code).toBe(1);
    expect(unwrapped(stdout)).toContain('The model of role judge (g) failed after 2 attempts: ');
    expect([server.bodies.length, judge.bodies.length]).toEqual([1, 2]);
  });

  it('a resumed run does not ask again for the rollouts on file when it was killed', async () => {
    await using server = await answering(1);
    await using judge = await answering(0.5);
    using folder = judgedFolder();
    const words = ['judged', '-a', '{"rows": 40}', '-n', '40', '-c', '2', ...policyAt(server), '--role', `judge=g@${judge.url}/v1`];
    const run = folder.start(words);
    await until(() => folder.results().length >= 5);
    run.child.kill('SIGKILL');
    await run.ended;
    const onFile = folder.results().map(({ example_id: id }) => `France, ${String(id).slice(1)}?`);
    const before = judge.bodies.length;
    const { code } = await folder.run([...words, '-R']);
    expect({ code, rollouts: folder.results().length }).toEqual({ code: 0, rollouts: 40 });
    const askedAgain = judge.bodies.slice(before).map(({ messages }) => /France, \d+\?/.exec(messages[1]!.content)![0]);
    expect(askedAgain.filter((question) => onFile.includes(question))).toEqual([]);
    expect(new Set(runFile<WireAskedLine>(folder, 'asked.jsonl').map(({ rollout_id: id }) => id)).size).toBe(40);
  });

  it('a retry asks the judge again, although its useless replies had a cache on disk, which holds no key that it repeats', async () => {
    let isWell = false;
    await using server = await answering(1);
    await using judge = await chatServer(() => (isWell ? '{"reason": "my key is sk-judge-secret-9", "score": 1}' : 'I would rather not say.'));
    using folder = judgedFolder();
    folder.hasOwnProcess = true;
    const cache = `cache = "replies.jsonl"\napi_key_var = "JUDGE_KEY"`;
    folder.file(
      'runs.toml',
      `model = "m"\napi_base_url = "${server.url}/v1"\napi_client_type = "chat"\n[[eval]]\nenv_id = "judged"\nnum_examples = 1\n[eval.roles.judge]\nbase_url = "${judge.url}/v1"\nmodel = "g"\n${cache}\n`,
    );
    const variables = { JUDGE_KEY: 'sk-judge-secret-9' };
    const first = await folder.run(['runs.toml'], variables);
    expect(unwrapped(first.stdout)).toContain('error 1 × ModelError (malformed): ');
    isWell = true;
    folder.hasOwnProcess = false;
    const second = await folder.run(['runs.toml', '-R'], variables);
    expect({ code: second.code, asked: judge.bodies.length }).toEqual({ code: 0, asked: 3 });
    expect(folder.results().map(({ reward }) => reward)).toEqual([1]);
    expect(folder.files().get('replies.jsonl')).toContain('my key is ***');
    for (const text of folder.files().values()) expect(text).not.toContain('sk-judge');
  });

  it('a run is not continued with another judge', async () => {
    await using server = await answering(1);
    using folder = judgedFolder();
    await folder.run(['judged', '-n', '1', ...policyAt(server)]);
    const [base] = readdirSync(join(folder.path, 'outputs/evals'));
    const run = join(folder.path, 'outputs/evals', base!, readdirSync(join(folder.path, 'outputs/evals', base!))[0]!);
    const { code, stderr } = await folder.run(['judged', '-n', '2', ...policyAt(server), '--role', 'judge=policy', '-R', run]);
    expect(code).toBe(2);
    expect(stderr).toContain('roles.judge was "contains-match" and is "m" now');
  });

  it('reads [roles.judge] of a file, at the top and for one run, key by key', async () => {
    await using server = await answering(0.5);
    using folder = judgedFolder();
    folder.hasOwnProcess = true;
    const top = `model = "m"\napi_base_url = "${server.url}/v1"\napi_client_type = "chat"\nnum_examples = 2\n[roles.judge]\nuse = "policy"\nmax_concurrent = 3\n`;
    folder.file(
      'runs.toml',
      `${top}[[eval]]\nenv_id = "judged"\n[[eval]]\nenv_id = "judged"\n[eval.roles.judge]\nuse = "builtin"\nbudget_calls = 1\n`,
    );
    const { code, stdout } = await folder.run(['runs.toml']);
    const lines = stdout.split('\n').filter((line) => /^(role +judge|asked|rollouts)/.test(line));
    expect({ code, lines }).toEqual({
      code: 0,
      lines: [
        'role       judge: m (the policy itself), 3 at once',
        'rollouts   2 finished, 0 failed',
        expect.stringMatching(/^asked {6}judge \(m\): 2 calls; /),
        'role       judge: contains-match (builtin), 3 at once, at most 1 call',
        'rollouts   1 finished, 1 failed (no reward; not in the means)',
        expect.stringMatching(/^asked {6}judge \(contains-match\): 1 call, 1 failed; /),
      ],
    });
    expect(unwrapped(stdout)).toContain('error 1 × ModelError (budget): ');
    expect(unwrapped(stdout)).toContain('Role judge has spent its budget of 1 call. Raise roles.judge.budget_calls');
  });

  it('takes a role from the top of a file for the runs that have it, and refuses one that no run has before any is played', async () => {
    await using server = await answering(0.5);
    using folder = judgedFolder();
    const plain = ENVIRONMENT.replace(/export const roles.*/, '')
      .replace('roles: own', 'roles: {}')
      .replace('new JudgeRubric()', 'new Rubric({ funcs: [function one() { return 1; }] })')
      .replace('JudgeRubric,', 'Rubric,');
    folder.file('environments/plain/environment.mjs', plain);
    const top = (role: string) =>
      `model = "m"\napi_base_url = "${server.url}/v1"\napi_client_type = "chat"\nnum_examples = 1\n[roles.${role}]\nuse = "policy"\n`;
    const runs = '[[eval]]\nenv_id = "plain"\n[[eval]]\nenv_id = "judged"\n';
    folder.file('runs.toml', top('judge') + runs);
    const { code, stdout, stderr } = await folder.run(['runs.toml']);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stdout.match(/^role +judge: .*$/gm)).toEqual(['role       judge: m (the policy itself)']);
    expect(stdout.match(/^reward .*$/gm)).toHaveLength(2);
    folder.file('environments/broken/environment.mjs', "throw new Error('no such file')");
    folder.file('broken.toml', `${top('judge')}[[eval]]\nenv_id = "plain"\n[[eval]]\nenv_id = "broken"\n`);
    const broken = await folder.run(['broken.toml']);
    expect(broken.stdout.match(/^reward .*$/gm)).toHaveLength(1);
    expect(broken.stderr).toMatch(/broken.* no such file/);
    folder.file('typo.toml', top('juge') + runs);
    const typo = await folder.run(['typo.toml']);
    expect(typo).toMatchObject({ code: 2, stdout: '' });
    expect(typo.stderr).toContain('vf-eval: No environment in the file has a role juge (did you mean judge?). Their roles are judge, critic.');
    expect(typo.stderr).not.toContain('run 2 of 2');
    folder.file('own.toml', `${top('judge')}${runs}[[eval]]\nenv_id = "plain"\n[eval.roles.judge]\nuse = "builtin"\n`);
    const own = await folder.run(['own.toml']);
    expect(own.code).toBe(2);
    expect(own.stderr).toContain('The environment has no role judge. It has no roles.');
  });

  it('shows in a dry run who plays each role', async () => {
    await using judge = await answering(1);
    using folder = judgedFolder();
    const { stdout } = await folder.run(['judged', '--dry-run', '--role', `judge=${judge.url}/v1`]);
    expect(stdout).toContain(`role         judge: judge-model at ${judge.url}/v1\n`);
    expect(stdout).toContain("role         critic: exact-match (builtin), the environment's default\n");
  });

  it('answers an environment only once the run is set up, and says so to one that asks before', async () => {
    using folder = judgedFolder();
    const { code, stderr } = await folder.run(['judged', '-n', '1', '-a', '{"early": true}']);
    expect(stderr).toContain('vf-eval: Role judge was called before the run was set up. Call it in an episode or a reward');
    expect(code).toBe(1);
  });

  it.each([
    [['--role', 'juge=builtin'], 'The environment has no role juge (did you mean judge?). Its roles are judge, critic.'],
    [['--role', 'judge=polcy'], 'Role judge is bound to "polcy", which is not an alias in configs/endpoints.toml (did you mean policy?).'],
    [
      ['--role', 'judge=policy'],
      'The policy extractive-baseline cannot play role judge: a built-in baseline plays this environment by fixed rules and answers nothing else.',
    ],
    [['--role', 'judge=https://api.openai.com/v1'], 'The environment variable OPENAI_API_KEY holds no API key for role judge;'],
    [
      ['-a', '{"needed": true}'],
      'The environment has a role judge (scores how well an answer agrees with the reference answer), but no model is bound to it. Bind one, for example with --role judge=',
    ],
    [['-a', '{"needed": true}', '--role', 'judge=builtin'], 'Role judge has no builtin model. Bind it to a server or to the policy'],
  ])('%j is one line on stderr, exit code 2', async (flags, line) => {
    using folder = judgedFolder();
    folder.file('configs/endpoints.toml', '');
    const { code, stderr, stdout } = await folder.run(['judged', '-n', '1', ...flags]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr.trim().split('\n')).toEqual([expect.stringContaining(`vf-eval: ${line}`)]);
  });

  it('a server that is not there ends the run before it begins, in one line without the password', async () => {
    using folder = judgedFolder();
    const { code, stderr } = await folder.run(['judged', '-n', '1', '--role', 'judge=http://me:hunter22@127.0.0.1:1/v1']);
    expect(code).toBe(1);
    expect(stderr).toContain('vf-eval: The server of role judge at http://***@127.0.0.1:1/v1 cannot be reached: ');
    expect(stderr).not.toContain('hunter22');
  });
});
