import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openLosses, openOwnCredit, openPlayedRoles, openSource } from '../../../src/sessions/training/open-joints.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { PhaseClock } from '../../../src/trainer/loop/phase-clock.ts';
import type { SourceContext } from '../../../src/trainer/trajectory-source.ts';
import { updatePolicy } from '../../../src/trainer/loop/update-policy.ts';
import { CountingEnv } from '../../rollouts/counting-env.ts';
import { openCredit } from '../../../src/trainer/credit/registry.ts';
import { advantagesOf, credits, passOptions, passOver, PLAIN, rollouts, spoken } from '../../trainer/credit/credit-cases.ts';
import { someConfig } from '../../trainer/some-config.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-loss-'));
afterAll(() => rmSync(folder, { recursive: true }));
let modules = 0;

/** A module in a folder of its own; its path. */
function moduleWith(source: string): string {
  const path = join(folder, `loss-${++modules}.mts`);
  writeFileSync(path, source);
  return path;
}

/** The example of the README of the losses. */
function documentedModule(): string {
  const readme = readFileSync(join(import.meta.dirname, '../../../src/trainer/losses/README.md'), 'utf8');
  return /```ts\n(\/\/ near-sampler\.ts[^]*?)```/.exec(readme)![1]!;
}

/** What a step with these losses gives: two rollouts of two tokens with log-probs -1, whose sampler said -0.1 and -1/3. */
async function stepWith(table: Record<string, unknown>) {
  const algorithm = { advantage: PLAIN, ...(table['algorithm'] as object) };
  const config = someConfig({ ...table, algorithm });
  const losses = await openLosses(config, new CountingEnv({ rows: 2 }));
  const work = await credits(config).assign(rollouts({ a: [1, 0] }), passOver());
  const adam = { learningRate: 1, beta1: 0.9, beta2: 0.9, epsilon: 1e-8, weightDecay: 0, maxGradNorm: null };
  return updatePolicy(work, losses, { ...passOptions(), algorithm: config.algorithm, adam, version: 3, timer: new PhaseClock(1, {}) });
}

describe('openLosses', () => {
  const squares = (0.9 ** 2 + (2 / 3) ** 2) / 2;

  it('opens the documented module in addition to the main loss, with its weight, settings and metrics', async () => {
    const use = moduleWith(documentedModule());
    const { applied, values } = await stepWith({ losses: { near: { use, weight: 0.5, args: { scale: 0.2 } } } });
    expect(applied).toBe(1);
    expect(values['loss/near/squared_distance']).toBeCloseTo(squares, 6);
    expect(values['loss/near/loss']).toBeCloseTo((0.5 * 0.2 * squares) / 2, 6);
    expect(values['loss']).toBeCloseTo(values['policy_loss']! + values['loss/near/loss']!, 12);
  });

  it('opens it as the main loss; a metric that only the module knows keeps a name of its own', async () => {
    const use = moduleWith(documentedModule());
    const { values } = await stepWith({ algorithm: { loss: { use, args: { scale: 0.2 } } } });
    expect(values['loss']).toBeCloseTo((0.2 * squares) / 2, 6);
    expect(values['loss/policy/squared_distance']).toBeCloseTo(squares, 6);
    expect('squared_distance' in values).toBe(false);
  });

  it('does not let a module overwrite a number of the step', async () => {
    const metrics = "{ grad_norm: { merge: 'max', value: 99 } }";
    const use = moduleWith(
      `export const createLoss = () => ({ needs: { old: false, reference: false, sampler: false }, evaluate: ({ logProbs }) => ({ loss: 0, gradient: logProbs.map(() => 0), metrics: ${metrics} }) });`,
    );
    const { values } = await stepWith({ algorithm: { loss: { use } } });
    expect([values['grad_norm'], values['loss/policy/grad_norm']]).toEqual([1, 99]);
  });

  it('ends the set-up with a loss that forgets tokens, and names the module', async () => {
    const use = moduleWith(
      'export const createLoss = () => ({ needs: { old: false, reference: false, sampler: false }, evaluate: () => ({ loss: 0, gradient: new Float64Array(1), metrics: {} }) });',
    );
    const step = stepWith({ losses: { short: { use } } });
    await expect(step).rejects.toThrow(
      `evaluate of the loss ${use} (losses.short.use) returned a wrong value: gradient must have a number for each of the 34 tokens, got 1. Found on made-up rollouts`,
    );
  });

  it.each([
    ['no createLoss', 'export const other = 1;', /does not export a function createLoss/],
    ['a fault', 'throw new Error("no GPU here");', /could not be imported: Error: no GPU here/],
    ['no loss', 'export const createLoss = () => null;', /must return \{ needs: \{ old, reference, sampler \}, evaluate/],
  ])('refuses a module with %s in one line', async (_, source, message) => {
    const use = moduleWith(source);
    const opening = openLosses(someConfig({ losses: { mine: { use } } }), new CountingEnv({ rows: 2 }));
    await expect(opening).rejects.toThrow(ConfigError);
    await expect(opening).rejects.toThrow(message);
  });
});

describe('openPlayedRoles', () => {
  const rolesOf = (config: Record<string, unknown>) => openPlayedRoles(someConfig(config), new CountingEnv({ rows: 2 }), { hasModule: false });

  it('asks the module of the source, and knows the one role of sampled rows', async () => {
    const source = moduleWith('export const createSource = () => null;\nexport const playedRoles = ({ config }) => ({ [`of-${config.seed}`]: {} });');
    expect(await rolesOf({ source, seed: 4 })).toEqual({ 'of-4': {} });
    expect(await rolesOf({ source: moduleWith('export const createSource = () => null;') })).toBeNull();
    expect(await rolesOf({})).toEqual({ policy: {} });
    expect(await rolesOf({ rollouts_file: 'theirs.jsonl' })).toBeNull();
    const agent = Object.assign(new CountingEnv({ rows: 2 }), { asksPolicy: true, play: async () => ({ state: {} }) });
    expect(await openPlayedRoles(someConfig({}), agent, { hasModule: false })).toBeNull();
  });

  it.each([
    ['throws', 'export const playedRoles = () => nothing;', /^playedRoles of .* failed: ReferenceError/],
    ['returns a list', "export const playedRoles = () => ['solve'];", /must return an object for each role by its name/],
    ['is a constant', 'export const playedRoles = { solve: {} };', /exports playedRoles, but it is not a function/],
  ])('refuses a module whose playedRoles %s', async (_, code, message) => {
    await expect(rolesOf({ source: moduleWith(code) })).rejects.toThrow(message);
  });
});

describe('openSource', () => {
  it('names the module that is missing, and the one whose createSource throws', async () => {
    const missing = someConfig({ source: './missing-source.ts' });
    await expect(openSource(missing)).rejects.toThrow(/^There is no module \.\/missing-source\.ts \(source\); name a file/);
    const path = moduleWith("export const createSource = () => { throw new TypeError('no rows'); };");
    const createSource = await openSource(someConfig({ source: path }));
    expect(() => createSource!({} as never)).toThrow(`createSource of ${path} failed: TypeError: no rows`);
  });
});

describe('openSource of rollouts_file', () => {
  const context = { store: null } as unknown as SourceContext;

  it('gives all sessions of a process the same stream, which none can read again, and each its own reading of a file', async () => {
    const stream = (await openSource(someConfig({ rollouts_file: '-' })))!;
    expect(stream(context)).toBe(stream(context));
    const file = (await openSource(someConfig({ rollouts_file: 'theirs.jsonl' })))!;
    expect(file(context)).not.toBe(file(context));
  });

  const line = (group: number, index: number, changes: object = {}): string =>
    JSON.stringify({
      schema_version: 1,
      rollout_id: `${group}/${index}`,
      group_id: `${group}`,
      example_id: group,
      reward: index,
      metrics: {},
      stop_condition: 'completed',
      is_truncated: false,
      policy: { model: 'theirs', version: 0 },
      sampling: { temperature: 1 },
      logprobs_mode: 'raw',
      tokenizer_hash: null,
      token_ids: [group, index, 7],
      loss_mask: [0, 1, 1],
      logprobs: [null, -1, -1],
      prompt_length: 1,
      segments: [
        { kind: 'prompt', start: 0, end: 1, version: null },
        { kind: 'model', start: 1, end: 3, version: 0 },
      ],
      ...changes,
    });
  const all = Array.from({ length: 4 }, (_, group) => [line(group, 0), line(group, 1)]).flat();
  const opened = (lines: readonly string[], steps: number, warn: (notice: string) => void = () => {}) => {
    const path = join(folder, `theirs-${++modules}.jsonl`);
    writeFileSync(path, lines.map((text) => `${text}\n`).join(''));
    return openSource(someConfig({ steps, rollouts_file: path, rollouts: { examples_per_step: 2, rollouts_per_example: 2 } }), { warn });
  };

  it.each([
    ['a log-prob', { logprobs: [null, -1, 1] }, /:8 is not a rollout .*: logprobs\[2\] is 1, which no sampler gives/],
    ['a field', { reward: 'high' }, /:8 is not a rollout .*reward/],
    ['a temperature', { sampling: { temperature: 0.5 } }, /:8 was sampled at temperature 0\.5/],
    ['an id', { token_ids: [3, 1, -7] }, /:8 is not a rollout .*token_ids/],
    ['a rollout that is there twice', { rollout_id: '3/0', token_ids: [3, 0, 7] }, /:8 is the rollout 3\/0 of line 7 again/],
    [
      'the rollout of another group',
      { rollout_id: '1/0', group_id: '1', example_id: 1, token_ids: [1, 0, 7] },
      /:8 is the rollout 1\/0 of line 3 again/,
    ],
    ['an id of another group', { rollout_id: '1/0' }, /:8 has the rollout_id "1\/0", as line 3 has\. Give each rollout an id of its own/],
    ['an id of its group', { rollout_id: '3/0' }, /:8 has the rollout_id "3\/0", as line 7 has/],
  ])('finds %s in the last line before the first step, which does not read so far', async (_, changes, message) => {
    await expect(opened(all, 1)).resolves.not.toBeNull();
    await expect(opened([...all.slice(0, -1), line(3, 1, changes)], 1)).rejects.toThrow(message);
  });

  it('says how many groups the steps leave over', async () => {
    const notices: string[] = [];
    const note = (notice: string) => notices.push(notice.replace(/\S+\.jsonl/, 'FILE'));
    await opened(all, 2, note);
    await opened(all, 1, note);
    await opened([...all, line(4, 0), line(4, 1)], 2, note);
    expect(notices).toEqual([
      '2 of the 4 groups of rollouts in FILE are not used: one step takes 2; raise --steps',
      '1 of the 5 groups of rollouts in FILE is not used: 2 steps take 4; with a number of groups per step (-n) that divides 5, none is left over',
    ]);
  });

  it('finds that there are too few groups for the steps before the first of them', async () => {
    await expect(opened(all, 2)).resolves.not.toBeNull();
    await expect(opened(all, 3)).rejects.toThrow(
      /has too few groups of rollouts for --steps 3: 4, and a step takes 2; lower --steps, or give more rollouts$/,
    );
  });
});

describe('openOwnCredit', () => {
  const credit =
    'export const createCredit = ({ offset = 0 }) => ({ assign: ({ groups }) => ({ advantages: groups.map((group) => group.map(({ reward }) => reward - offset)) }) });';
  const opened = (use: string, rest: object = {}) => openOwnCredit(someConfig({ algorithm: { advantage: { use } }, ...rest }));

  it('opens the credit of a module and of the environment, and none for a built-in one', async () => {
    const use = moduleWith(credit);
    expect(await opened('outcome')).toBeNull();
    expect(await opened(use)).toMatchObject({ module: `${use} (algorithm.advantage.use)` });
    expect(await opened('environment', { environment: { id: use } })).toMatchObject({ module: use });
  });

  it('opens the documented module, which compares a rollout with earlier ones of its row and gives later turns less', async () => {
    const page = readFileSync(join(import.meta.dirname, '../../../docs/training-joints.md'), 'utf8');
    const use = moduleWith(/```ts\n(\/\/ my-credit.ts[^]*?)```/.exec(page)![1]!);
    const config = someConfig({ algorithm: { advantage: { use, args: { fade: 0.5 } } }, rollouts: { rollouts_per_example: 1 } });
    const open = async () => credits(config, openCredit(config, await openOwnCredit(config)));
    const [first, resumed] = [await open(), await open()];
    const given = [spoken('a/0', 1, [[1, -1], null, [2, -1]])];
    expect(advantagesOf(await first.assign(given))).toEqual({ 'a/0': [1, 0.5] });
    const again = await first.assign(given);
    expect(advantagesOf(again)).toEqual({ 'a/0': [0.7, 0.35] });
    expect(again.values['credit/rows']).toBe(1);
    await first.saveState(folder);
    await resumed.loadState(folder);
    expect(advantagesOf(await resumed.assign(given))).toEqual(advantagesOf(await first.assign(given)));
  });

  it.each([
    [
      'turn',
      /^algorithm.advantage.use = "turn" is not a credit \(did you mean turns\?\); it is one of outcome, turns, environment or a module \(.\/my-credit.ts\)$/,
    ],
    ['./missing.ts', /^There is no module .*missing.ts \(algorithm.advantage.use\); name a file/],
  ])('refuses %s', async (use, message) => {
    await expect(opened(use)).rejects.toThrow(message);
    await expect(opened(use)).rejects.toThrow(ConfigError);
  });

  it('refuses a module or an environment without createCredit, and one that throws, before a run begins', async () => {
    const none = moduleWith('export const x = 1;');
    await expect(opened(none)).rejects.toThrow(`${none} (algorithm.advantage.use) does not export a function createCredit`);
    await expect(opened('environment', { environment: { id: none } })).rejects.toThrow(`exports createCredit, but ${none} exports none`);
    const failing = moduleWith("export const createCredit = () => { throw new Error('rate must be below 1'); };");
    await expect(opened(failing)).rejects.toThrow(`createCredit of ${failing} (algorithm.advantage.use) failed: `);
  });
});
