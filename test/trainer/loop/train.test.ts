/** How runs end: at the last step, at a guard, at a fault that nothing can fix. What a resume makes of them is in train-resume.test.ts. */
import { mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CancelledError, ConfigError, GradientError, PolicyError } from '../../../src/core/errors.ts';
import { EnvGroup } from '../../../src/core/env-group.ts';
import { reward, Rubric } from '../../../src/core/rubric.ts';
import type { TrainingObserver } from '../../../src/trainer/training-observer.ts';
import { CountingEnv } from '../../rollouts/counting-env.ts';
import { rolloutFilesOf, rolloutText } from '../kept-rollouts.ts';
import { eventsOf, finalAdapter, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';
import { UnigramBackend } from '../unigram-backend.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-train-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

type Before = ConstructorParameters<typeof UnigramBackend>[0];
const run = (options: Partial<SmallRunOptions> & { readonly before?: Before } = {}) =>
  trainSmall(path, { backend: async () => new UnigramBackend(options.before), ...options });
const kinds = async () => (await eventsOf(path)).map(({ kind }) => kind);
const stepsOf = async (kind: string) => (await rowsOf(path)).filter((row) => row['kind'] === kind).map(({ step }) => step);
const refused = () => {
  throw new PolicyError('the server is gone');
};
const worth = (value: (given: { readonly modelText: string }) => number) =>
  new CountingEnv({ rows: 9, maxTurns: 1, rubric: new Rubric({ funcs: [reward(value, { name: 'worth' })] }) });

describe('a run that nothing disturbs', () => {
  it('records the reward of each task of a group of environments, even when a step is repeated from its file', async () => {
    const environment = new EnvGroup({ id: 'mixed', environments: { ones: worth(() => 1), halves: worth(() => 0.5) } });
    const config = { steps: 1, rollouts: { examples_per_step: 18, rollouts_per_example: 2 }, evaluation: { every: 1, examples: 4 } };
    const tasks = async () => (await rowsOf(path)).map((row) => [row['kind'], row['reward/ones'], row['reward/halves']]);
    const expected = [
      ['evaluation', 1, 0.5],
      ['step', 1, 0.5],
      ['evaluation', 1, 0.5],
    ];
    await run({ environment, config });
    expect(await tasks()).toEqual(expected);
    await rm(join(path, 'checkpoints'), { recursive: true });
    await run({ environment, config });
    expect(await tasks()).toEqual(expected);
  });

  it('trains every step, evaluates before, between and after, and leaves checkpoints, rows and events', async () => {
    const outcome = await run();
    expect(outcome).toMatchObject({
      reason: 'finished',
      message: null,
      step: 6,
      version: 6,
      model: expect.stringMatching(/-v000006$/) as string,
      directory: path,
      adapter: join(path, 'checkpoints/step-000006/adapter'),
      checkpoint: join(path, 'checkpoints/step-000006'),
      resumable: false,
      events: 2,
    });
    const rows = await rowsOf(path);
    const order = ['0 evaluation', '1 step', '2 step', '3 step', '3 evaluation', '4 step', '5 step', '6 step', '6 evaluation'];
    expect(rows.map(({ kind, step }) => `${String(step)} ${String(kind)}`)).toEqual(order);
    expect(rows.map((row) => row['policy_version'])).toEqual([0, 1, 2, 3, 3, 4, 5, 6, 6]);
    expect(rows.flatMap((row) => row['sampled_version'] ?? [])).toEqual([0, 1, 2, 3, 4, 5]);
    expect(await kinds()).toEqual(['started', 'finished']);
    expect((await readdir(join(path, 'checkpoints'))).toSorted()).toEqual(['step-000004', 'step-000006']);
    // Those before the oldest checkpoint that is kept are only for people to read.
    const packed = [1, 2, 3, 4].map((step) => `step-00000${step}.jsonl.gz`);
    expect(rolloutFilesOf(path)).toEqual([...packed, 'step-000005.jsonl', 'step-000006.jsonl']);
  });

  it('samples from the adapter that it starts from, at the first step and in the evaluation before it', async () => {
    const names = async (folder: string, step: number) => {
      const name = `step-00000${step}.jsonl`;
      const text = folder === 'rollouts' ? rolloutText(path, name) : await readFile(join(path, folder, name), 'utf8');
      return new Set(text.match(/v\d{6}\b|"base"/g));
    };
    const config = { model: { initial_adapter: 'elsewhere' }, checkpoint: { every: 2, keep_rollouts: true } };
    await run({ config });
    expect([await names('evaluations', 0), await names('rollouts', 1), await names('rollouts', 2)]).toEqual(
      ['v000000', 'v000000', 'v000001'].map((name) => new Set([name])),
    );
  });

  it('samples from an adapter at the first step, and in the evaluation before it, where weights change in flight', async () => {
    const config = { publish: { in_flight: true }, rollouts: { max_staleness: 1 }, checkpoint: { every: 2, keep_rollouts: true } };
    await run({ config });
    const texts = [await readFile(join(path, 'evaluations', 'step-000000.jsonl'), 'utf8'), rolloutText(path, 'step-000001.jsonl')];
    for (const text of texts) expect(new Set(text.match(/v\d{6}\b|"base"/g))).toEqual(new Set(['v000000']));
  });

  it('has nothing left to do when it is resumed, and leaves its last version serving', async () => {
    const before = await run();
    const again = await run();
    expect(again).toMatchObject({ reason: 'finished', step: 6, version: 6, model: expect.stringMatching(/-v000006$/) as string });
    expect(await finalAdapter(again, 'unigram.json')).toEqual(await finalAdapter(before, 'unigram.json'));
    expect(await stepsOf('step')).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it('reaches the same weights when it is given more steps later', async () => {
    const whole = await finalAdapter(await run(), 'unigram.json');
    path = await newRun(await mkdtemp(join(parent, 'more-')));
    expect(await run({ config: { steps: 4 } })).toMatchObject({ reason: 'finished', step: 4 });
    expect(await finalAdapter(await run({ config: { steps: 6 } }), 'unigram.json')).toEqual(whole);
    expect([await stepsOf('step'), await stepsOf('evaluation')]).toEqual([
      [1, 2, 3, 4, 5, 6],
      [0, 3, 4, 6],
    ]);
  });

  it('continues with the token budget that memory allowed, until another is asked for', async () => {
    const config = (steps: number, max_tokens: number) => ({ steps, evaluation: { every: 0 }, backend: { max_tokens } });
    const full = new GradientError('no room', { code: 'out_of_memory' });
    let isFull = true;
    const before: Before = (call) => {
      if (call !== 'backward' || !isFull) return;
      isFull = false;
      throw full;
    };
    await run({ config: config(2, 400), before });
    await run({ config: config(4, 400) });
    const [, halved, , kept] = (await rowsOf(path)).map((row) => row['micro_batches'] as number);
    expect((await eventsOf(path)).filter(({ kind }) => kind === 'token_budget_halved')).toHaveLength(1);
    await run({ config: config(6, 4000) });
    const [raised] = (await rowsOf(path)).slice(-1).map((row) => row['micro_batches'] as number);
    expect([halved, kept].every((count) => count! > 2)).toBe(true);
    expect(raised).toBe(2);
  });

  it('raises a halved token budget after ten good steps, at the same step in a resumed run, to the same weights', async () => {
    const full = new GradientError('no room', { code: 'out_of_memory' });
    const failingOnce = (): Before => {
      let isFull = true;
      return (call) => {
        if (call !== 'backward' || !isFull) return;
        isFull = false;
        throw full;
      };
    };
    const config = { steps: 13, evaluation: { every: 0 }, backend: { max_tokens: 400 }, checkpoint: { every: 3, keep: 2, keep_rollouts: true } };
    const whole = await finalAdapter(await run({ config, before: failingOnce() }), 'unigram.json');
    const rows = await rowsOf(path);
    const raised = (await eventsOf(path)).filter(({ kind }) => kind === 'token_budget_raised').map(({ step }) => step);
    expect(raised).toHaveLength(1);
    expect(rows[10]!['micro_batches']).toBeGreaterThan(rows[11]!['micro_batches'] as number);

    path = await newRun(await mkdtemp(join(parent, 'again-')));
    const stop = new AbortController();
    const onStep = ({ step }: { readonly step: number }) => step === 7 && stop.abort();
    await run({ config, before: failingOnce(), signal: stop.signal, observer: { onStep } });
    expect(await finalAdapter(await run({ config }), 'unigram.json')).toEqual(whole);
    expect((await rowsOf(path)).map((row) => row['micro_batches'])).toEqual(rows.map((row) => row['micro_batches']));
    expect((await eventsOf(path)).filter(({ kind }) => kind === 'token_budget_raised').map(({ step }) => step)).toEqual(raised);
  });

  it('evaluates more rows after a resume with the version of that step, not with the base', async () => {
    const stop = new AbortController();
    const onStep = ({ step }: { readonly step: number }) => {
      if (step === 5) stop.abort();
    };
    const config = (examples: number) => ({ checkpoint: { every: 2, keep: 0, keep_rollouts: true }, evaluation: { every: 3, examples } });
    await run({ config: config(2), signal: stop.signal, observer: { onStep } });
    await rm(join(path, 'checkpoints'), { recursive: true });
    await run({ config: config(5) });
    const rows = (await rowsOf(path)).filter(({ kind }) => kind === 'evaluation');
    expect(rows.map((row) => [row['step'], row['rollouts'], row['policy_version']])).toEqual([
      [0, 2, 0],
      [3, 5, 3],
      [6, 5, 6],
    ]);
  });

  it('plays evaluations again that were begun with another temperature: no mean mixes the two', async () => {
    const stop = new AbortController();
    const config = (temperature: number) => ({ steps: 3, evaluation: { every: 3, temperature } });
    const temperatures: number[] = [];
    const session: SmallRunOptions['session'] = (made) => {
      const lease = made.client.lease.bind(made.client);
      made.client.lease = async (signal, options) => {
        const leased = await lease(signal, options);
        if (leased.kind !== 'tokens') return leased;
        const generate = leased.generate.bind(leased);
        leased.generate = (request) => {
          if (request.sampling.temperature !== 1) temperatures.push(request.sampling.temperature ?? 1);
          return generate(request);
        };
        return leased;
      };
      return made;
    };
    let evaluated = 0;
    const onTurn = ({ key }: { readonly key: string | null }) => {
      if (temperatures.length > 0 && key !== null && ++evaluated === 3) stop.abort();
    };
    await run({ config: config(0.5), signal: stop.signal, onTurn, session });
    const before = temperatures.length;
    expect(before).toBeGreaterThan(0);
    expect(await run({ config: config(0.25), isEvaluatedAgain: true, session })).toMatchObject({ reason: 'finished' });
    const rows = (await rowsOf(path)).filter(({ kind }) => kind === 'evaluation');
    const [first] = rows;
    expect(temperatures.slice(before).filter((each) => each === 0.25)).toHaveLength(rows.length * Number(first!['rollouts']));
  });
});

describe('an environment that is corrected between two processes', () => {
  it('is evaluated again where the run stands; what was evaluated before chooses no best and is in no curve', async () => {
    const config = (steps: number) => ({ steps, evaluation: { every: 3 }, checkpoint: { every: 3 } });
    let calls = 0;
    const rewarding = (value: number) => worth(() => value + ++calls / 1e6);
    await run({ config: config(3), environment: rewarding(5), evaluationSetup: 1 });
    const kept = async () => JSON.parse(await readFile(join(path, 'best/evaluation.json'), 'utf8')) as Record<string, number>;
    expect((await kept())['reward_mean']).toBeGreaterThan(5);
    const outcome = await run({ config: config(6), environment: rewarding(1), evaluationSetup: 2, isEvaluatedAgain: true });
    expect(outcome).toMatchObject({ reason: 'finished', step: 6 });
    const evaluations = (await rowsOf(path)).filter(({ kind }) => kind === 'evaluation');
    expect(evaluations.map(({ step, evaluation_setup: setup }) => [step, setup])).toEqual([
      [0, 1],
      [3, 1],
      [3, 2],
      [6, 2],
    ]);
    expect((await kept())['reward_mean']).toBeLessThan(2);
    expect((await eventsOf(path)).map(({ message }) => message)).toContainEqual(
      'The 2 evaluations so far were played with another environment, temperature or other rows, so later ones are compared neither with them nor with the start',
    );
  });
});

describe('nothing to learn from', () => {
  it('stops, and never trains, where all rollouts fail again and again', async () => {
    const calls: string[] = [];
    const outcome = await run({ onTurn: refused, config: { evaluation: { every: 0 } }, before: (call) => void calls.push(call) });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 0, version: 0, adapter: null, resumable: true });
    expect(outcome.message).toMatch(/after 5 attempts at step 1: \d+ of \d+ rollouts played so far failed.*the server is gone/);
    expect(calls).toEqual([]);
    expect((await kinds()).at(-1)).toBe('stopped');
    // The server came back.
    expect(await run({ config: { evaluation: { every: 0 } } })).toMatchObject({ reason: 'finished', version: 6 });
  });

  it('counts what failed of a step that is interrupted while it is sampled again, and nothing twice', async () => {
    const stop = new AbortController();
    const failing = new Set<string>();
    const observer: TrainingObserver = {
      onFailedRollout: ({ rolloutId }) => void failing.add(rolloutId),
      onEvent: ({ kind }) => kind === 'step_repeated' && stop.abort(),
    };
    const config = { evaluation: { every: 0 } };
    const outcome = await run({ onTurn: refused, config, observer, signal: stop.signal });
    expect(failing.size).toBeGreaterThan(0);
    expect(outcome).toMatchObject({ reason: 'interrupted', step: 0, failedRollouts: failing.size });
    const later = new AbortController();
    const onStep = () => later.abort();
    expect(await run({ config, observer: { onStep }, signal: later.signal })).toMatchObject({ reason: 'interrupted', failedRollouts: 0 });
  });

  it('says that it was the evaluation whose rollouts failed, and how many did', async () => {
    const outcome = await run({ onTurn: refused });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 0, failedRollouts: expect.any(Number) });
    expect(outcome.failedRollouts).toBeGreaterThan(0);
    expect(outcome.message).toMatch(/after 5 attempts at the evaluation at step 0: \d+ of \d+ rollouts/);
    expect(await kinds()).toContain('evaluation_repeated');
    expect(await kinds()).not.toContain('step_repeated');
  });

  it.each([
    ['all rewards are equal', () => 1, /no group has two finished rollouts with different rewards/],
    ['no reward is a number', () => NaN, /no rollout finished: \d+ of \d+ failed/],
  ])('skips steps, says so, and stops after the allowed number where %s', async (_, value, reason) => {
    const calls: string[] = [];
    const config = { evaluation: { every: 0 }, guards: { max_skipped_steps: 3 }, rollouts: { max_error_rate: 1, examples_per_step: 3 } };
    const outcome = await run({ environment: worth(value), config, before: (call) => void calls.push(call) });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 3, version: 0, adapter: null });
    expect(outcome.message).toMatch(/3 steps in a row.*max_skipped_steps/);
    expect(outcome.message).toMatch(reason);
    expect(calls).not.toContain('optimStep');
    expect((await kinds()).filter((kind) => kind !== 'alarm')).toEqual(['started', 'step_skipped', 'step_skipped', 'step_skipped', 'stopped']);
    expect((await rowsOf(path)).map((row) => [row['policy_version'], row['optimizer_steps']])).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
  });

  it.each([
    ['batch', 1, 'no two finished rollouts of the batch have different rewards'],
    ['role', 1, 'no two finished rollouts of the same role have different rewards'],
    ['none', 0, 'every finished rollout has the reward 0'],
  ])('says what is not different where rewards are compared by %s', async (scope, value, reason) => {
    const config = { evaluation: { every: 0 }, guards: { max_skipped_steps: 1 }, algorithm: { advantage: { scope }, kl: { coefficient: 0 } } };
    const outcome = await run({ environment: worth(() => value), config });
    expect(outcome.message).toContain(`; the last: ${reason}. `);
  });

  it('counts skipped steps on through a resume', async () => {
    const config = (most: number) => ({ evaluation: { every: 0 }, guards: { max_skipped_steps: most }, checkpoint: { every: 1 } });
    const environment = worth(() => 1);
    expect(await run({ environment, config: { ...config(9), steps: 3 } })).toMatchObject({ reason: 'stopped', version: 0 });
    expect(await run({ environment, config: config(5) })).toMatchObject({ reason: 'stopped', step: 5 });
  });

  it('loses no step where they stop the run, and a resumed run takes the next one', async () => {
    let isFlat = false;
    const environment = worth(({ modelText }) => (isFlat ? 1 : modelText.length % 2));
    const config = { evaluation: { every: 0 }, guards: { max_skipped_steps: 2 }, checkpoint: { every: 100 }, algorithm: { minibatches: 1 } };
    const observer = { onStep: ({ step }: { readonly step: number }) => void (isFlat = step === 2 || step === 3) };
    const stopped = await run({ environment, config, observer });
    expect(stopped).toMatchObject({ reason: 'stopped', step: 4, version: 2 });
    expect(stopped.checkpoint).toMatch(/step-000004$/);
    expect(await run({ environment, config, observer })).toMatchObject({ reason: 'finished', step: 6, version: 6 });
    expect((await rowsOf(path)).map((row) => row['policy_version'])).toEqual([1, 2, 2, 2, 5, 6]);
  });
});

describe('log-probs that are not finite', () => {
  const notFinite = () => {
    throw new GradientError('Expected finite log-probs, the model gave NaN', { code: 'not_finite' });
  };
  /** Every batch with the sequence that was forwarded first gives NaN, as it would where the model gives NaN for it. */
  const poisoned = (): Before => {
    let poison: string | null = null;
    return (call, batch) => {
      if (call !== 'forward') return;
      const { ids, offsets } = batch!;
      const sequences = Array.from({ length: offsets.length - 1 }, (_, i) => ids.subarray(offsets[i], offsets[i + 1]).join());
      poison ??= sequences[0]!;
      if (sequences.includes(poison)) notFinite();
    };
  };

  it('of one sequence cost that sequence: the others of its step are trained', async () => {
    const config = { backend: { max_tokens: 4000 } };
    expect(await run({ config, before: poisoned() })).toMatchObject({ reason: 'finished', version: 6 });
    // The same row comes twice in six steps.
    expect(await kinds()).toEqual(['started', 'alarm', 'alarm', 'finished']);
    const dropped = (await rowsOf(path)).flatMap((row) => (row['kind'] === 'step' ? [row['sequences_dropped']] : []));
    expect(dropped[0]).toBe(1);
    const whole = await newRun(await mkdtemp(join(parent, 'whole-')));
    await trainSmall(whole, { backend: async () => new UnigramBackend(), config });
    const tokens = async (of: string) => (await rowsOf(of)).find(({ step, kind }) => step === 1 && kind === 'step')!['trained_tokens'] as number;
    expect((await tokens(whole)) - (await tokens(path))).toBeGreaterThan(0);
    expect((await tokens(whole)) - (await tokens(path))).toBeLessThan(25);
  });

  it('of one sequence cost that sequence where the penalty is part of the reward, too', async () => {
    const config = { algorithm: { kl: { coefficient: 0.01, placement: 'reward' }, old_log_probs: 'sampler', correction: { level: 'none' } } };
    expect(await run({ config, before: poisoned() })).toMatchObject({ reason: 'finished', version: 6 });
    const [first] = (await rowsOf(path)).filter(({ kind }) => kind === 'step');
    expect(first).toMatchObject({ sequences_dropped: 1, optimizer_steps: 2 });
  });

  it('of all sequences cost the step and not the run: the weights stay, and the steps after it are trained', async () => {
    let isBroken = true;
    const before: Before = (call) => {
      if (call === 'forward' && isBroken) notFinite();
    };
    const outcome = await run({ before, observer: { onStep: () => void (isBroken = false) } });
    expect(outcome).toMatchObject({ reason: 'finished', version: 6 });
    const skipped = (await eventsOf(path)).filter(({ kind }) => kind === 'step_skipped');
    expect(skipped).toEqual([expect.objectContaining({ message: 'No update: a log-prob or the gradient was not finite' })]);
    const [first] = (await rowsOf(path)).filter(({ kind }) => kind === 'step');
    expect(first).toMatchObject({ step: 1, policy_version: 0, optimizer_steps: 0, loss: null });
  });
});

describe('alarms', () => {
  it('stop the run when configured to, after the row was written', async () => {
    const outcome = await run({ config: { guards: { min_entropy: 9, on_alarm: 'stop' } } });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 1 });
    expect(outcome.message).toMatch(/Stopped by an alarm: .*guards\.min_entropy/);
    expect(await stepsOf('step')).toEqual([1]);
  });
});

describe('a checkpoint that cannot be written', () => {
  it('is reported, and the run continues; the next one is written', async () => {
    let saves = 0;
    const full = new GradientError('I/O error: No space left on device (os error 28)', { code: 'internal' });
    const before: Before = (call) => {
      if (call === 'saveState' && ++saves === 1) throw full;
    };
    const config = { algorithm: { minibatches: 1 } };
    expect(await run({ before, config })).toMatchObject({ reason: 'finished', checkpoint: join(path, 'checkpoints/step-000006') });
    const [alarm] = (await eventsOf(path)).filter(({ kind }) => kind === 'alarm');
    expect(alarm!.message).toMatch(/step-000002.*the disk is full; free some space/);
    expect((await readdir(join(path, 'checkpoints'))).toSorted()).toEqual(['step-000004', 'step-000006']);
  });
});

describe('the last checkpoint', () => {
  it('stops the run where it cannot be written, because the adapter would be lost; a resume writes it with the same weights', async () => {
    const config = { algorithm: { minibatches: 1 } };
    const whole = await newRun(await mkdtemp(join(parent, 'whole-')));
    const expected = await finalAdapter(await trainSmall(whole, { backend: async () => new UnigramBackend(), config }), 'unigram.json');
    let saves = 0;
    const full = new GradientError('I/O error: No space left on device (os error 28)', { code: 'internal' });
    const before: Before = (call) => {
      if (call === 'saveState' && ++saves === 3) throw full;
    };
    const outcome = await run({ before, config });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 6, resumable: true, checkpoint: join(path, 'checkpoints/step-000004') });
    expect(outcome.message).toMatch(/^The last checkpoint is missing: .*step-000006.*the disk is full.* continue this run with -R/);
    const resumed = await run({ config });
    expect(resumed).toMatchObject({ reason: 'finished', checkpoint: join(path, 'checkpoints/step-000006') });
    expect(await finalAdapter(resumed, 'unigram.json')).toEqual(expected);
  });
});

describe('a file that is no longer needed and cannot be deleted', () => {
  it('is reported, and the run continues', async () => {
    const config = { evaluation: { every: 0 }, checkpoint: { every: 1, keep: 1, keep_rollouts: false } };
    const onPhase: TrainingObserver['onPhase'] = (phase, step) => {
      if (phase !== 'checkpoint') return;
      const inTheWay = [join(path, `checkpoints/step-000001.${process.pid}.tmp`), join(path, 'rollouts/step-000000.jsonl')] as const;
      if (step === 2) mkdirSync(join(inTheWay[0], 'mine'), { recursive: true });
      if (step === 3) rmSync(inTheWay[0], { recursive: true });
      if (step === 4) mkdirSync(inTheWay[1]);
      if (step === 5) rmdirSync(inTheWay[1]);
    };
    expect(await run({ config, observer: { onPhase } })).toMatchObject({ reason: 'finished', step: 6 });
    const alarms = (await eventsOf(path)).filter(({ kind }) => kind === 'alarm');
    expect(alarms.map(({ step, message }) => [step, message])).toEqual([
      [2, expect.stringMatching(/Cannot delete .*checkpoints.step-000001.*ENOTEMPTY/)],
      [4, expect.stringMatching(/Cannot delete .*rollouts.step-000000\.jsonl/)],
    ]);
    expect([await readdir(join(path, 'checkpoints')), await readdir(join(path, 'rollouts'))]).toEqual([['step-000006'], []]);
  });
});

describe('old rollouts that cannot be compressed', () => {
  it('stay as they were, are reported, and are compressed at the next checkpoint', async () => {
    const config = { evaluation: { every: 0 }, checkpoint: { every: 2, keep: 1 } };
    const inTheWay = join(path, 'rollouts/step-000001.jsonl.gz');
    const lasting: string[][] = [];
    const onPhase: TrainingObserver['onPhase'] = (phase, step) => {
      if (phase !== 'checkpoint') return;
      lasting.push(rolloutFilesOf(path));
      if (step === 2) mkdirSync(inTheWay);
      if (step === 4) rmdirSync(inTheWay);
    };
    expect(await run({ config, observer: { onPhase } })).toMatchObject({ reason: 'finished', step: 6 });
    const alarms = (await eventsOf(path)).filter(({ kind }) => kind === 'alarm');
    expect(alarms.map(({ step, message }) => [step, message])).toEqual([[2, expect.stringMatching(/Could not write .*step-000001\.jsonl\.gz/)]]);
    expect(lasting[1]).toEqual(['step-000001.jsonl', 'step-000001.jsonl.gz', ...[2, 3, 4].map((step) => `step-00000${step}.jsonl`)]);
    expect(rolloutFilesOf(path)).toEqual([1, 2, 3, 4, 5, 6].map((step) => `step-00000${step}.jsonl.gz`));
  });

  it('keep the run within its bound, which it says once', async () => {
    const config = { evaluation: { every: 0 }, checkpoint: { every: 1, keep: 1, max_rollouts_gb: 1e-9 } };
    expect(await run({ config })).toMatchObject({ reason: 'finished', step: 6 });
    expect(await readdir(join(path, 'rollouts'))).toEqual([]);
    const notes = (await eventsOf(path)).filter(({ kind }) => kind === 'note').map(({ message }) => message);
    expect(notes).toEqual([
      expect.stringContaining('The kept rollouts reached 1e-9 GB (checkpoint.max_rollouts_gb): those of old steps lost their token ids'),
    ]);
  });
});

describe('what nothing can fix', () => {
  it('is thrown as it is, and leaves the folder free and the run resumable', async () => {
    const bug = new TypeError('a bug in a live view');
    for (const name of ['onStep', 'onPhase', 'onRollouts', 'onEvaluation', 'onEvent']) {
      const observer = {
        [name]: () => {
          throw bug;
        },
      };
      await expect(run({ observer, config: { rollouts: { examples_per_step: 3, max_staleness: 1 } } })).rejects.toBe(bug);
    }
    expect(await run({ config: { rollouts: { examples_per_step: 3, max_staleness: 1 } } })).toMatchObject({ reason: 'finished' });
  });

  it('is an environment with fewer rows than a step has', async () => {
    await expect(run({ config: { rollouts: { examples_per_step: 10 } } })).rejects.toThrow(ConfigError);
  });

  it('is a backend that cannot be started', async () => {
    const missing = new ConfigError('no torch');
    await expect(run({ backend: () => Promise.reject(missing) })).rejects.toBe(missing);
  });

  it('is not an error when the run was cancelled while its backend started', async () => {
    const stop = new AbortController();
    const backend = async () => {
      stop.abort();
      throw new CancelledError('The start was cancelled');
    };
    expect(await run({ backend, signal: stop.signal })).toMatchObject({ reason: 'interrupted', step: 0 });
  });
});
