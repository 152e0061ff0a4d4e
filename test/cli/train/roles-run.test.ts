/** vf-train with a judge in addition to the policy, in this process alone: the records, the requests of a resume, and the models that may not judge. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WireAskedLine } from '../../../src/schemas/asked-line.ts';
import type { TrainingSummaryWire } from '../../../src/schemas/training-summary.ts';
import { chatServer } from '../../models/chat-server.ts';
import { rolloutText } from '../../trainer/kept-rollouts.ts';
import { TrainFolder } from '../../vllm/train-process.ts';

const ENVIRONMENT = `
import { Dataset, exactMatchJudge, JudgeRubric, SingleTurnEnv } from 'vf-search';
export function loadEnvironment() {
  const rows = [0, 1, 2, 3].map((i) => ({ exampleId: 'r' + i, prompt: [{ role: 'user', content: 'Q' + i }], answer: 'Paris' }));
  const roles = { judge: { about: 'scores answers', default: 'builtin', builtin: exactMatchJudge() } };
  const limits = { responseTokens: 8, contextTokens: 200 };
  const data = new Dataset('rows', rows);
  return new SingleTurnEnv({ id: 'judged', train: data, eval: data, rubric: new JudgeRubric(), roles, limits, turnFormat: 'continuation' });
}
`;
const ALONE = { VF_BASE_URL: '' };

let folder: TrainFolder;
let words: string[];
beforeEach(() => {
  folder = new TrainFolder();
  const environment = join(folder.path, 'environment.mjs');
  writeFileSync(environment, ENVIRONMENT);
  const settings = ['steps=1', 'evaluation.every=0', 'checkpoint.keep_rollouts=true', 'rollouts.repeat_pause_s=0', 'policy.embedded.threads=1'];
  words = [environment, '-m', 'nano-base', '--embedded', '-n', '2', '-r', '2', '-o', '.', '--plain', ...settings.flatMap((each) => ['--set', each])];
});
afterEach(() => folder[Symbol.dispose]());

function askedLines(): WireAskedLine[] {
  const runs = join(folder.path, 'train');
  return rolloutText(join(runs, readdirSync(runs)[0]!), 'step-000001.asked.jsonl')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as WireAskedLine);
}

describe('vf-train and models by role', { timeout: 120_000 }, () => {
  it('asks a judge on a server, records what it was asked, and does not ask again for a step that is on file', async () => {
    let score = 0;
    await using judge = await chatServer(() => JSON.stringify({ reason: 'so', score: (score = 1 - score) }));
    const { code, stdout, stderr } = await folder.runInProcess(
      [...words, '--role', `judge=grader@${judge.url}/v1`, '--set', 'roles.judge.cache=off', '--json'],
      ALONE,
    ).ended;
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stderr).toContain(`role judge: grader at ${judge.url}/v1, cache off`);
    const summary = JSON.parse(stdout) as { roles: Record<string, unknown> };
    expect(summary.roles['judge']).toMatchObject({ models: ['grader'], calls: 4, requests: 4, failures: 0, tokens: { input: 28, output: 12 } });
    const asked = askedLines();
    expect(new Set(asked.map(({ rollout_id: id }) => id)).size).toBe(4);
    expect(asked[0]).toMatchObject({ schema_version: 1, asked: [{ role: 'judge', model: 'grader', version: null, attempts: 1 }] });
    const [run] = readdirSync(join(folder.path, 'train'));
    const again = await folder.runInProcess(['-R', join(folder.path, 'train', run!), '--steps', '2', '--json'], ALONE).ended;
    expect(again.code).toBe(0);
    expect(judge.bodies).toHaveLength(8);
    const both = JSON.parse(again.stdout) as typeof summary;
    expect(both.roles['judge']).toMatchObject({ calls: 8, requests: 8, failures: 0, tokens: { input: 56, output: 24 } });
    expect(askedLines()).toEqual(asked);
  });

  it('ends when the judge has no credit left, keeps the steps that are done, and goes on from there', async () => {
    let hasCredit = false;
    await using judge = await chatServer((_, index) =>
      hasCredit || index < 5 ? `{"reason": "so", "score": ${index % 2}}` : { status: 402, body: { error: { message: 'Insufficient Balance' } } },
    );
    const role = ['--role', `judge=grader@${judge.url}/v1`, '--set', 'roles.judge.cache=off', '--set', 'steps=2'];
    const { code, stderr } = await folder.runInProcess([...words, ...role], ALONE).ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /Stopped at step 2: .*credit or quota of the API key is used up: .* 402 .*billing\. Fix this, then continue this run with -R/,
    );
    const asked = judge.bodies.length;
    hasCredit = true;
    const again = await folder.runInProcess(['-R', folder.run()!.path, '--json'], ALONE).ended;
    expect(again.code).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({ reason: 'finished', step: 2 });
    // Those of the first step are on file.
    expect(judge.bodies.length - asked).toBeLessThanOrEqual(4);
  });

  it('a dry run shows who judges', async () => {
    const { stdout } = await folder.runInProcess([...words, '--dry-run'], ALONE).ended;
    expect(stdout).toContain("role          judge: exact-match (builtin), the environment's default\n");
  });

  it('a policy that judges itself and writes no score leaves its rollouts without a reward, whatever is asked of it', { tags: 'long' }, async () => {
    const { code, stderr } = await folder.runInProcess([...words, '--role', 'judge=policy'], ALONE).ended;
    expect(code).toBe(1);
    expect(stderr).toContain('role judge: nano-base (the policy itself)');
    expect(stderr).toMatch(/\d of \d rollouts (played so far )?failed.*The model of role judge \(nano-base\) gave no usable score in two replies/);
    // Two calls for each rollout that failed, by leases of their own: the version is recorded.
    const calls = askedLines().flatMap(({ asked }) => asked);
    expect(calls.every(({ model, version }) => model === 'nano-base' && version === 0)).toBe(true);
    const rollouts = rolloutText(folder.run()!.path, 'step-000001.jsonl').trim().split('\n');
    expect(rollouts.length).toBeGreaterThan(3);
    // The whole step was sampled again.
    const played = rollouts.filter((line) => !line.startsWith('{"restarted"'));
    expect(played.length).toBeLessThan(rollouts.length);
    for (const line of played) expect(JSON.parse(line)).toMatchObject({ reward: null, error: { type: 'ModelError' } });
  });

  it('an unknown role is refused before anything is started', async () => {
    const { code, stderr } = await folder.runInProcess([...words, '--role', 'juge=builtin'], ALONE).ended;
    expect(code).toBe(2);
    expect(stderr).toContain('vf-train: The environment has no role juge (did you mean judge?). Its role is judge.');
  });

  it('shows what a judge with a price has cost, stops at --max-cost with exit code 3, and continues with a higher limit', async () => {
    let score = 0;
    await using judge = await chatServer(() => JSON.stringify({ reason: 'so', score: (score = 1 - score) }));
    mkdirSync(join(folder.path, 'configs'));
    const price = 'price = { input = 1000.0, output = 1000.0 }';
    writeFileSync(
      join(folder.path, 'configs/endpoints.toml'),
      `[[endpoint]]\nendpoint_id = "paid"\nmodel = "j"\nurl = "${judge.url}/v1"\ntype = "chat"\n${price}\n`,
    );
    const args = [...words, '--role', 'judge=paid', '--set', 'roles.judge.cache=off', '--set', 'steps=3', '--json'];
    const { code, stdout, stderr } = await folder.runInProcess([...args, '--max-cost', '0.000001'], ALONE).ended;
    expect({ code, stderr }).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/the run has cost \d\.\d{4} US dollars, and the limit is 0\.000001/),
    });
    const stopped = JSON.parse(stdout) as TrainingSummaryWire;
    expect(stopped).toMatchObject({ reason: 'stopped', step: 1, cost: { limit: 0.000001, limit_reached: true, unpriced: [] } });
    const { input, output } = stopped.roles!['judge']!.tokens;
    expect(stopped.cost!.usd).toBeCloseTo((input + output) / 1000, 9);
    expect(stopped.cost!.roles).toEqual({ judge: stopped.cost!.usd });
    const more = await folder.runInProcess(['-R', folder.run()!.path, '--max-cost', '1000', '--plain'], ALONE).ended;
    expect({ code: more.code, stderr: more.stderr }).toMatchObject({ code: 0 });
    const { cost } = JSON.parse(more.stdout) as TrainingSummaryWire;
    expect(cost).toMatchObject({ limit: 1000, limit_reached: false });
    expect(cost!.usd).toBeCloseTo(3 * stopped.cost!.usd!, 9);
  });

  it('stops at --max-cost with exit code 3 where the judge reports no usage, and names it', async () => {
    const choices = [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: JSON.stringify({ reason: 'so', score: 1 }) } }];
    await using judge = await chatServer(() => ({ status: 200, body: { choices } }));
    mkdirSync(join(folder.path, 'configs'));
    writeFileSync(
      join(folder.path, 'configs/endpoints.toml'),
      `[[endpoint]]\nendpoint_id = "paid"\nmodel = "j"\nurl = "${judge.url}/v1"\ntype = "chat"\nprice = { input = 1.0, output = 1.0 }\n`,
    );
    const { code, stdout, stderr } = await folder.runInProcess(
      [...words, '--role', 'judge=paid', '--set', 'steps=3', '--json', '--max-cost', '5'],
      ALONE,
    ).ended;
    expect({ code, stderr }).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/a server of the models by role reports no usage, so what they cost is unknown and the limit of 5 US dollars/),
    });
    expect((JSON.parse(stdout) as TrainingSummaryWire).cost).toMatchObject({ usd: null, roles: { judge: null }, uncounted: ['j'] });
  });

  it('refuses --max-cost in one line where a judge has no price', async () => {
    await using judge = await chatServer(() => '{}');
    const { code, stderr } = await folder.runInProcess([...words, '--role', `judge=j@${judge.url}/v1`, '--max-cost', '1'], ALONE).ended;
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/^vf-train: --max-cost needs the price of every model, and j \(role judge\) has none\..*\n$/),
    });
  });
});
