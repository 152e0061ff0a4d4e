/** vf-eval and money: prices of the registry, the cost of policy and roles, and a ceiling that ends a run in order. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { WireMetadata } from '../../src/schemas/results.ts';
import { type ChatAnswer, chatServer, type ChatServer } from '../models/chat-server.ts';
import { EvalFolder } from './vf-eval-process.ts';

const ENVIRONMENT = `
import { Dataset, exactMatchJudge, JudgeRubric, SingleTurnEnv } from 'vf-search';
export function loadEnvironment({ rows = 4, judged = true }) {
  const row = (i) => ({ exampleId: 'r' + i, prompt: [{ role: 'user', content: 'Capital of France, ' + i + '?' }], answer: 'Paris' });
  const roles = { judge: { about: 'scores', default: 'builtin', builtin: exactMatchJudge({ match: 'contains' }) } };
  return new SingleTurnEnv({ id: 'judged', eval: new Dataset('rows', Array.from({ length: rows }, (_, i) => row(i))), rubric: new JudgeRubric(), roles });
}
`;

/** Every reply costs 7 tokens read and 3 written: $7 + $9 for the policy, $0.7 + $0.6 for the judge. */
const PRICED = { policy: '{ input = 1_000_000, output = 3_000_000 }', judge: '{ input = 100_000, cached = 0, output = 200_000.0 }' };

function registry(url: string, prices: Partial<typeof PRICED>): string {
  const table = (id: string, price: string | undefined) =>
    `[[endpoint]]\nendpoint_id = "${id}"\nmodel = "${id}-model"\nurl = "${url}/v1"\ntype = "chat"\n${price === undefined ? '' : `price = ${price}\n`}`;
  return table('policy', prices.policy) + table('judge', prices.judge);
}

function pricedFolder(url: string, prices: Partial<typeof PRICED> = PRICED): EvalFolder {
  const folder = new EvalFolder();
  folder.file('environments/judged/environment.mjs', ENVIRONMENT);
  folder.file('configs/endpoints.toml', registry(url, prices));
  return folder;
}

function metadataOf(folder: EvalFolder): WireMetadata {
  const evaluations = join(folder.path, 'outputs/evals', readdirSync(join(folder.path, 'outputs/evals'))[0]!);
  return JSON.parse(readFileSync(join(evaluations, readdirSync(evaluations)[0]!, 'metadata.json'), 'utf8')) as WireMetadata;
}

const verdict = JSON.stringify({ reason: 'so', score: 1 });
const answering = (of: (index: number) => ChatAnswer = () => 'Paris'): Promise<ChatServer> =>
  chatServer(({ model }, index) => (model === 'judge-model' ? verdict : of(index)));

const WORDS = ['judged', '-m', 'policy', '-t', '8', '-c', '1'];
const JUDGED = [...WORDS, '--role', 'judge=judge'];

describe.concurrent('vf-eval and the cost of a run', () => {
  it('shows what policy and roles cost, in the summary, in --json and in the metadata', async () => {
    await using server = await answering();
    using folder = pricedFolder(server.url);
    const { code, stdout } = await folder.run([...JUDGED, '-n', '2']);
    expect(code).toBe(0);
    // The judge answers the same question once: its second reply is from the cache.
    expect(stdout).toMatch(/^cost +\$34\.60: policy \$32\.00, judge \$2\.60$/m);
    const cost = { usd: 34.6, policy: 32, roles: { judge: 2.6 }, repeated: 0, unpriced: [], uncounted: [], limit: null, limit_reached: false };
    const prices = { policy: { input: 1e6, cached: 1e6, output: 3e6 }, roles: { judge: { input: 1e5, cached: 0, output: 2e5 } } };
    expect(metadataOf(folder).cost).toEqual({ ...cost, prices });
    const json = await folder.run([...JUDGED, '-n', '2', '--json', '-R']);
    expect((JSON.parse(json.stdout) as { cost: unknown }).cost).toEqual(cost);
  });

  it('names a model without a price and shows its cost as unknown', async () => {
    await using server = await answering();
    using folder = pricedFolder(server.url, { judge: PRICED.judge });
    const { code, stdout } = await folder.run([...JUDGED, '-n', '1']);
    expect(code).toBe(0);
    expect(stdout.replace(/\s+/g, ' ')).toContain('cost unknown: policy unknown, judge $1.30; policy-model has no price in configs/endpoints.toml');
  });

  it('a server of this machine without a price has no cost', async () => {
    await using server = await answering();
    using folder = pricedFolder(server.url, {});
    const { stdout } = await folder.run([...JUDGED, '-n', '1']);
    expect(stdout).not.toMatch(/^cost/m);
    expect(metadataOf(folder).cost).toBeUndefined();
  });

  it('--max-cost refuses a model without a price in one line, before the first rollout', async () => {
    await using server = await answering();
    using folder = pricedFolder(server.url, { policy: PRICED.policy });
    const { code, stderr, stdout } = await folder.run([...JUDGED, '--max-cost', '5']);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(
      /^vf-eval: --max-cost needs the price of every model, and judge-model \(role judge\) has none\. Add the price to alias judge /,
    );
    expect(server.bodies).toEqual([]);
  });

  it('a model by URL has the price of the endpoint with the same URL and model', async () => {
    await using server = await answering();
    using folder = pricedFolder(server.url);
    const { stdout } = await folder.run([
      'judged',
      '-n',
      '1',
      '-b',
      `${server.url}/v1/`,
      '-m',
      'policy-model',
      '-t',
      '8',
      '--api-client-type',
      'chat',
    ]);
    expect(stdout).toMatch(/^cost +\$16\.00$/m);
    const other = await folder.run(['judged', '-b', `${server.url}/v1`, '-m', 'other', '--max-cost', '1', '--api-client-type', 'chat']);
    expect(other).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Add a table [[endpoint]] with its url and model to configs/endpoints.toml'),
    });
  });

  it('a file of endpoints that cannot be read stops no run that does not need it', async () => {
    await using server = await answering();
    using folder = pricedFolder(server.url);
    folder.file('configs/endpoints.toml', 'this is no TOML');
    const words = ['judged', '-n', '1', '-t', '8', '-b', `${server.url}/v1`, '-m', 'policy-model', '--api-client-type', 'chat'];
    expect((await folder.run(words)).code).toBe(0);
    const limited = await folder.run([...words, '--max-cost', '1']);
    expect(limited).toMatchObject({ code: 2, stderr: expect.stringContaining('configs/endpoints.toml is not valid TOML') });
  });

  it('--max-cost begins no further rows, ends those in flight, and a resume counts what was paid', async () => {
    await using server = await answering();
    using folder = pricedFolder(server.url);
    const words = [...WORDS, '-n', '4', '-r', '2', '--max-cost'];
    const first = await folder.run([...words, '40']);
    expect(first.code).toBe(3);
    // The third rollout passes 40; its group ends.
    expect(folder.results().map(({ rollout_id: id }) => id)).toEqual(['r0/0', 'r0/1', 'r1/0', 'r1/1']);
    expect(first.stderr).toMatch(
      /^stopped at --max-cost 40, after \$64\.00: 4 of 8 rollouts saved in outputs\S+; to continue with more:\n {2}\S.* --max-cost 80 -R outputs/m,
    );
    expect(first.stderr).not.toMatch(/--max-cost 40 /);
    const again = await folder.run([...words, '40', '-R']);
    expect({ code: again.code, results: folder.results().length }).toEqual({ code: 3, results: 4 });
    const more = await folder.run([...words, '1000', '-R']);
    expect(more).toMatchObject({ code: 0, stdout: expect.stringMatching(/^cost +\$128\.00; the limit is \$1000\.00$/m) });
    expect(server.bodies).toHaveLength(8);
  });

  it('the command that continues has a ceiling above what was spent', async () => {
    await using server = await answering();
    using folder = pricedFolder(server.url);
    const first = await folder.run([...WORDS, '-n', '4', '--max-cost', '1']);
    expect(first.code).toBe(3);
    const [, spent, ceiling] = /^stopped at --max-cost 1, after \$(\S+): .*\n {2}\S.* --max-cost (\d+) -R outputs/m.exec(first.stderr)!;
    expect(Number(ceiling)).toBeGreaterThan(Number(spent));
  });

  it('is unknown where a server reports no usage: the server is named, and a ceiling that cannot be kept ends the run', async () => {
    const choices = [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: verdict } }];
    const usage = { prompt_tokens: -7, completion_tokens: 3 };
    await using server = await chatServer(({ model }) => (model === 'judge-model' ? { status: 200, body: { choices, usage } } : 'Paris'));
    using folder = pricedFolder(server.url);
    const whole = await folder.run([...JUDGED, '-n', '1']);
    expect(whole.code).toBe(0);
    expect(whole.stdout.replace(/\s+/g, ' ')).toContain(
      'cost unknown: policy $16.00, judge unknown; the server of judge-model did not report the tokens of every call',
    );
    const limited = await folder.run([...JUDGED, '-n', '4', '--max-cost', '1000']);
    expect(limited.code).toBe(3);
    expect(limited.stderr).toMatch(
      /^stopped because --max-cost 1000 cannot be kept: the cost is unknown, because the server of judge-model did not .*; to continue without a limit:$/m,
    );
    expect(limited.stderr).toMatch(/^ {2}\S.* -R outputs/m);
    expect(limited.stderr).not.toMatch(/^ {2}\S.* --max-cost/m);
  });

  it('what failed and was played again counts, within a run and over a resume', async () => {
    const refused = { status: 400, body: { error: { message: 'no' } } };
    let isBroken = true;
    await using server = await chatServer(({ model }) => (model === 'judge-model' ? (isBroken ? refused : verdict) : 'Paris'));
    using folder = pricedFolder(server.url);
    const first = await folder.run([...JUDGED, '-n', '1', '--max-retries', '0']);
    expect(first).toMatchObject({ code: 1, stdout: expect.stringMatching(/^cost +\$16\.00$/m) });
    isBroken = false;
    const second = await folder.run([...JUDGED, '-n', '1', '-R', '--max-cost', '60']);
    const text = second.stdout.replace(/\s+/g, ' ');
    expect(text).toContain(
      'cost $33.30: policy $32.00, judge $1.30; $16.00 of it for attempts that failed and were played again; the limit is $60.00',
    );
    expect(metadataOf(folder).dropped).toEqual({ policy: { input: 7, cached: 0, output: 3 }, roles: {} });
    const third = await folder.run([...JUDGED, '-n', '1', '-R']);
    expect(third.stdout).toMatch(/^cost +\$33\.30: /m);
  });
});
