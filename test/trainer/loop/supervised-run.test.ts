/** Runs with supervised steps: alone, before rollouts, together with them; their validation; and the effect of an interruption. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reward, Rubric } from '../../../src/core/rubric.ts';
import type { TrainingOutcome, TrainingSession } from '../../../src/trainer/training-session.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { CountingEnv } from '../../rollouts/counting-env.ts';
import { finalAdapter, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';
import { trajectory } from '../some-trajectories.ts';
import { UnigramBackend } from '../unigram-backend.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-supervised-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

/** A row that teaches one letter. */
function row(i: number, letter: string, weight = 1): Trajectory {
  const ids = Int32Array.from(Buffer.from(`p${letter.repeat(4)}`));
  const targets = Int32Array.of(1, 2, 3, 4);
  const weights = weight === 1 ? {} : { weights: new Float64Array(4).fill(weight) };
  return trajectory(`row ${i}/0`, { groupId: `row ${i}`, reward: null, metrics: {}, logProbs: null, ids, promptLength: 1, targets, ...weights });
}

const ROWS = Array.from({ length: 10 }, (_, i) => row(i, 'abcde'[i % 5]!));
const SFT = { data: 'rows.jsonl', steps: 4, batch_size: 4, learning_rate: 0.1, validate_every: 2 };
const run = ({ config = {}, ...options }: Partial<SmallRunOptions> & { readonly config?: Record<string, unknown> } = {}) =>
  trainSmall(path, {
    backend: async () => new UnigramBackend(),
    demonstrations: { training: ROWS, validation: [] },
    ...options,
    config: { steps: 0, evaluation: { every: 0 }, ...config, sft: { ...SFT, ...(config['sft'] as object) } },
  });
const steps = async (kind: string) => (await rowsOf(path)).filter((each) => each['kind'] === kind);
const adapterOf = (outcome: Parameters<typeof finalAdapter>[0]) => finalAdapter(outcome, 'unigram.json');

describe('supervised steps', () => {
  it('lower the loss, sample nothing, and count rows and tokens', async () => {
    const onTurn = () => expect.fail('Expected nothing to be sampled');
    expect(await run({ onTurn })).toMatchObject({ reason: 'finished', step: 4, version: 4 });
    const rows = await steps('step');
    const nll = rows.map((each) => each['loss/sft/nll'] as number);
    expect(nll[0]).toBeCloseTo(Math.log(256), 2);
    expect(nll.at(-1)).toBeLessThan(nll[0]! - 0.3);
    expect(rows[0]).toMatchObject({ demonstrations: 4, demonstration_tokens: 16, trained_tokens: 16, sampling_attempts: 0, optimizer_steps: 1 });
    expect(rows[0]).not.toHaveProperty('reward_mean');
    expect(await readdir(join(path, 'rollouts'))).toEqual([]);
  });

  it('publish nothing between steps, and the last version at the end', async () => {
    const published: number[] = [];
    const session: SmallRunOptions['session'] = (made) => {
      made.publisher.before = async () => void published.push(made.publisher.requests.at(-1)!.version);
      return made;
    };
    await run({ session });
    expect(published).toEqual([4]);
  });

  it('need no policy server', async () => {
    const session: SmallRunOptions['session'] = (made): TrainingSession => ({ ...made, isServed: false });
    const before = () => expect.fail('Expected nothing to be published');
    expect(await run({ session: (made) => ({ ...session(made), publisher: Object.assign(made.publisher, { before }) }) })).toMatchObject({
      reason: 'finished',
      version: 0,
      step: 4,
    });
  });

  it('weigh tokens: twice the weight is twice the gradient', async () => {
    const norms: number[] = [];
    for (const weight of [1, 2]) {
      path = await newRun(await mkdtemp(join(parent, 'weight-')));
      const training = ROWS.map((_, i) => row(i, 'abcde'[i % 5]!, weight));
      await run({ demonstrations: { training, validation: [] }, config: { sft: { steps: 1 } } });
      norms.push((await steps('step'))[0]!['grad_norm'] as number);
    }
    expect(norms[1]! / norms[0]!).toBeCloseTo(2, 10);
  });

  it('follow a schedule of their own', async () => {
    await run({ config: { sft: { schedule: 'linear', warmup_steps: 2, learning_rate: 0.1 }, optimizer: { learning_rate: 0.5 } } });
    expect((await steps('step')).map((each) => each['learning_rate'])).toEqual([0.05, 0.1, 0.1, 0.05]);
  });

  it('end with the same weights when interrupted after every step', async () => {
    const whole = await adapterOf(await run());
    const whole_rows = await rowsOf(path);
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    const outcomes: TrainingOutcome[] = [];
    while (outcomes.length < 6 && outcomes.at(-1)?.reason !== 'finished') {
      const stop = new AbortController();
      outcomes.push(await run({ signal: stop.signal, observer: { onStep: () => stop.abort() } }));
    }
    expect(outcomes.slice(0, -1).every(({ reason, resumable }) => reason === 'interrupted' && resumable)).toBe(true);
    expect(outcomes.length).toBeGreaterThan(3);
    expect(await adapterOf(outcomes.at(-1)!)).toEqual(whole);
    expect(await rowsOf(path)).toEqual(whole_rows);
  });
});

describe('validation', () => {
  it('measures the loss on rows that are never trained on, before, between and after, and keeps the adapter with the lowest', async () => {
    // What is learned helps with "a" and hurts with "z".
    const training = ROWS.map((_, i) => row(i, 'a'));
    await run({ demonstrations: { training, validation: [row(90, 'a')] } });
    const rows = await steps('validation');
    expect(rows.map(({ step }) => step)).toEqual([0, 2, 4]);
    const nll = rows.map((each) => each['validation_nll'] as number);
    expect(nll[0]).toBeCloseTo(Math.log(256), 5);
    expect(nll[2]).toBeLessThan(nll[1]!);
    const best = async () => JSON.parse(await readFile(join(path, 'best/validation.json'), 'utf8')) as object;
    expect(await best()).toMatchObject({ step: 4, validation_nll: nll[2] });
    expect(existsSync(join(path, 'best/adapter/unigram.json'))).toBe(true);

    path = await newRun(await mkdtemp(join(parent, 'worse-')));
    await run({ demonstrations: { training, validation: [row(90, 'z')] } });
    const worse = (await steps('validation')).map((each) => each['validation_nll'] as number);
    expect(worse[2]).toBeGreaterThan(worse[0]!);
    expect(await best()).toMatchObject({ step: 0 });
    expect((await readdir(path)).filter((name) => name.includes('tmp'))).toEqual([]);
  });

  it('puts the best adapter back that a crash in the middle of its replacement moved away', async () => {
    const sets = { demonstrations: { training: ROWS.map((_, i) => row(i, 'a')), validation: [row(90, 'z')] } };
    const stop = new AbortController();
    await run({ ...sets, signal: stop.signal, observer: { onStep: () => stop.abort() } });
    const best = await readFile(join(path, 'best/validation.json'), 'utf8');
    await rename(join(path, 'best'), join(path, 'best.old.tmp'));
    await mkdir(join(path, 'best.new.tmp'));
    expect(await run(sets)).toMatchObject({ reason: 'finished' });
    expect(await readFile(join(path, 'best/validation.json'), 'utf8')).toBe(best);
    expect(existsSync(join(path, 'best/adapter/unigram.json'))).toBe(true);
  });

  it('weighs tokens by their weights', async () => {
    const training = ROWS.map((_, i) => row(i, 'a'));
    const validation = [row(90, 'a', 3), row(91, 'z', 1)];
    await run({ demonstrations: { training, validation } });
    const last = (await steps('validation')).at(-1)!;
    const only = async (rows: readonly Trajectory[]) => {
      path = await newRun(await mkdtemp(join(parent, 'only-')));
      await run({ demonstrations: { training, validation: rows } });
      return (await steps('validation')).at(-1)!['validation_nll'] as number;
    };
    const [a, z] = [await only([row(90, 'a')]), await only([row(91, 'z')])];
    expect(last['validation_nll']).toBeCloseTo((3 * a + z) / 4, 10);
    expect(last).toMatchObject({ demonstrations: 2, demonstration_tokens: 8 });
  });
});

describe('supervised steps and rollouts in one run', () => {
  it('take the supervised steps first, and rollouts go on from the same adapter', async () => {
    expect(await run({ config: { steps: 3 } })).toMatchObject({ reason: 'finished', step: 7, version: 7 });
    const rows = await steps('step');
    expect(rows.map((each) => each['demonstrations'] ?? 0)).toEqual([4, 4, 2, 4, 0, 0, 0]);
    expect(rows.map((each) => each['rollouts'] ?? 0)).toEqual([0, 0, 0, 0, 12, 12, 12]);
    expect(rows[4]).toMatchObject({ sampled_version: 4, learning_rate: 0.01 });
    // The letters that were taught are likelier than in a base where all are alike.
    expect(rows[4]).not.toHaveProperty('loss/sft/nll');
  });

  it('mix demonstrations in with a weight of their own', async () => {
    await run({ config: { steps: 2, sft: { mix_weight: 0.25 } } });
    const rows = await steps('step');
    expect(rows.map((each) => [each['demonstrations'] ?? 0, each['rollouts'] ?? 0])).toEqual([
      [4, 0],
      [4, 0],
      [2, 0],
      [4, 0],
      [4, 12],
      [2, 12],
    ]);
    const mixed = rows[4]!;
    const share = mixed['loss/sft/loss'] as number;
    expect(share).toBeCloseTo(0.25 * (mixed['loss/sft/nll'] as number), 10);
    expect(mixed['loss']).toBeCloseTo((mixed['policy_loss'] as number) + (mixed['kl_loss'] as number) + share, 10);
  });

  it('make no update of their own in steps with rollouts, in which Adam would undo their weight', async () => {
    const value = (given: { readonly modelText: string; readonly row: { readonly exampleId: string | number } }) =>
      Number(given.row.exampleId) % 2 === 0 ? 1 : given.modelText.length % 2;
    const environment = new CountingEnv({ rows: 9, maxTurns: 1, rubric: new Rubric({ funcs: [reward(value, { name: 'odd' })] }) });
    await run({
      environment,
      config: { steps: 4, sft: { mix_weight: 0.25 }, algorithm: { minibatches: 3, constant_groups: 'drop', kl: { coefficient: 0 } } },
    });
    const mixed = (await steps('step')).filter((each) => (each['rollouts'] ?? 0) !== 0);
    expect(mixed.map((each) => each['groups_trained'])).toContain(2);
    expect(mixed.map((each) => each['optimizer_steps'])).toEqual(mixed.map((each) => Math.max(1, each['groups_trained'] as number)));
  });

  it('mix them in with that weight also where the loss on them is one of the configuration', async () => {
    const losses = { shown: { use: 'nll', on: 'demonstrations', weight: 0.5 } };
    await run({ config: { steps: 2, sft: { mix_weight: 0.25 }, losses } });
    const rows = await steps('step');
    const share = (each: Record<string, unknown>) => (each['loss/shown/loss'] as number) / (each['loss/shown/nll'] as number);
    expect([share(rows[0]!), share(rows[4]!)]).toEqual([expect.closeTo(0.5, 10), expect.closeTo(0.5 * 0.25, 10)]);
  });

  it('end with the same weights however they are interrupted in the first two steps', async () => {
    const visited = await interrupted((step) => step <= 2);
    expect(visited.some((place) => place.endsWith('validation'))).toBe(true);
  });

  it('end with the same weights however they are interrupted', { tags: 'long' }, async () => {
    expect((await interrupted(() => true)).length).toBeGreaterThan(20);
  });

  /** Interrupts a run in every phase of the chosen steps, and expects it to end like one left alone. Where it was interrupted. */
  async function interrupted(isChosen: (step: number) => boolean): Promise<string[]> {
    const config = { steps: 3, sft: { mix_weight: 0.25 }, rollouts: { examples_per_step: 3, rollouts_per_example: 4, max_concurrent: 4 } };
    const demonstrations = { training: ROWS, validation: [row(90, 'a')] };
    const whole = await adapterOf(await run({ config, demonstrations }));
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    const visited = new Set<string>();
    for (let attempts = 0; ; attempts++) {
      const stop = new AbortController();
      const onPhase = (phase: string, step: number) => {
        if (stop.signal.aborted || !isChosen(step) || visited.has(`${step} ${phase}`)) return;
        visited.add(`${step} ${phase}`);
        stop.abort();
      };
      const outcome = await run({ config, demonstrations, signal: stop.signal, observer: { onPhase } });
      expect(attempts).toBeLessThan(80);
      if (outcome.reason === 'interrupted') continue;
      expect(await adapterOf(outcome)).toEqual(whole);
      return [...visited];
    }
  }
});
