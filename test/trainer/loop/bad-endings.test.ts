/** What a run says and keeps after each kind of bad ending (docs/training-run.md), and that a resume goes on from there. */
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AdamOptions } from '../../../src/core/adam-options.ts';
import { PublishError } from '../../../src/core/errors.ts';
import { reward, Rubric } from '../../../src/core/rubric.ts';
import { Checkpoints } from '../../../src/trainer/records/checkpoints.ts';
import { evaluationsOf } from '../../../src/trainer/records/usable-version.ts';
import { readMetrics } from '../../../src/trainer/records/metrics-journal.ts';
import { SKIP_REMEDIES } from '../../../src/trainer/skip-reason.ts';
import { CountingEnv } from '../../rollouts/counting-env.ts';
import { eventsOf, finalAdapter, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';
import { UnigramBackend } from '../unigram-backend.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-endings-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

const run = (options: Partial<SmallRunOptions> = {}) => trainSmall(path, { backend: async () => new UnigramBackend(), ...options });
/** The adapter of the same run without a failure. */
const undisturbed = async (config: Record<string, unknown> = {}, options: Partial<SmallRunOptions> = {}) => {
  const whole = await newRun(await mkdtemp(join(parent, 'whole-')));
  const outcome = await trainSmall(whole, { backend: async () => new UnigramBackend(), ...options, config });
  return { adapter: await finalAdapter(outcome, 'unigram.json'), rows: await rowsOf(whole) };
};
const evaluations = async () =>
  evaluationsOf(await readMetrics(join(path, 'metrics.jsonl'))).map(({ step, values }) => [step, values['policy_version']]);
const kinds = async () => (await eventsOf(path)).map(({ kind }) => kind);

/** A publisher that fails for these versions. */
const refusing = (isRefused: (version: number) => boolean): NonNullable<SmallRunOptions['session']> => {
  const failure = new PublishError('no room for adapters');
  return (made) => {
    made.publisher.before = async () => void (made.publisher.failure = isRefused(made.publisher.requests.at(-1)!.version) ? failure : null);
    return made;
  };
};

describe('a last version that could not be published', () => {
  const config = { steps: 4, evaluation: { every: 2, examples: 4 } };

  it('leaves a run stopped, that names the version trained and the one that serves, and has no evaluation of the older one', async () => {
    const outcome = await run({ config, session: refusing((version) => version === 4) });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 4, version: 3, resumable: true });
    expect(outcome.message).toMatch(
      /^All steps are done, but their result, version 4, does not serve: the servers still have version 3, .*no room for adapters/,
    );
    expect(outcome.checkpoint).toMatch(/step-000004$/);
    expect(await evaluations()).toEqual([
      [0, 0],
      [2, 2],
    ]);
    expect(await kinds()).toEqual(['started', 'publish_failed', 'alarm', 'stopped']);
  });

  it('is published by a resume, which plays its evaluation and finishes with the adapter of an undisturbed run', async () => {
    await run({ config, session: refusing((version) => version === 4) });
    // The server may refuse it again.
    expect(await run({ config, session: refusing(() => true) })).toMatchObject({ reason: 'stopped', step: 4, version: 0 });
    expect((await eventsOf(path)).at(-1)!.message).toMatch(
      /^Version 4, which the last checkpoint holds, cannot be served: no room for adapters\. -R/,
    );
    let turns = 0;
    const outcome = await run({ config, onTurn: () => void turns++ });
    expect(outcome).toMatchObject({ reason: 'finished', version: 4 });
    expect(turns).toBe(4);
    const whole = await undisturbed(config);
    expect(await finalAdapter(outcome, 'unigram.json')).toEqual(whole.adapter);
    expect((await rowsOf(path)).filter(({ kind }) => kind === 'evaluation')).toEqual(whole.rows.filter(({ kind }) => kind === 'evaluation'));
  });

  it.each([1, 2])('is not finished either after %i steps of which none was ever published', async (steps) => {
    const outcome = await run({ config: { ...config, steps }, session: refusing(() => true) });
    expect(outcome).toMatchObject({ reason: 'stopped', step: steps, version: 0 });
    expect(outcome.message).toContain('the servers still have the base');
    expect(await evaluations()).toEqual([[0, 0]]);
  });

  it('does not keep a run without a server from finishing', async () => {
    const refused = refusing(() => true);
    const session: SmallRunOptions['session'] = (made) => ({ ...refused(made), isServed: false });
    expect(await run({ config: { ...config, evaluation: { every: 0 } }, session })).toMatchObject({ reason: 'finished', step: 4 });
  });

  it('in the middle leaves out the evaluation of its step: an older version is not evaluated in its place', async () => {
    expect(await run({ config, session: refusing((version) => version === 2) })).toMatchObject({ reason: 'finished', version: 4 });
    expect(await evaluations()).toEqual([
      [0, 0],
      [4, 4],
    ]);
    expect((await eventsOf(path)).find(({ kind }) => kind === 'alarm')!.message).toBe(
      'The evaluation after step 2 was not played: version 2 does not serve',
    );
  });

  it('has its evaluation played where an older process recorded that of an older version', async () => {
    await run({ config });
    const metrics = join(path, 'metrics.jsonl');
    const lines = (await readFile(metrics, 'utf8')).trimEnd().split('\n');
    const old = JSON.stringify({ ...(JSON.parse(lines.at(-1)!) as object), policy_version: 3, reward_mean: 0.99 });
    await writeFile(metrics, `${[...lines.slice(0, -1), old].join('\n')}\n`);
    const file = join(path, 'evaluations/step-000004.jsonl');
    await writeFile(file, (await readFile(file, 'utf8')).replaceAll('"policy_version":4', '"policy_version":3'));
    let turns = 0;
    expect(await run({ config, onTurn: () => void turns++ })).toMatchObject({ reason: 'finished' });
    expect(turns).toBe(4);
    expect(await evaluations()).toEqual([
      [0, 0],
      [2, 2],
      [3, 3],
      [4, 4],
    ]);
  });
});

/** Takes one step of Adam that no weights survive. */
class DivergingBackend extends UnigramBackend {
  readonly #at: number;
  #updates = 0;

  /** @param at number of the update in this process */
  constructor(at: number) {
    super();
    this.#at = at;
  }

  override optimStep(options: AdamOptions): ReturnType<UnigramBackend['optimStep']> {
    this.#updates++;
    return super.optimStep(this.#updates === this.#at ? { ...options, learningRate: 1e300 } : options);
  }
}

describe('a step that leaves weights which are not finite', () => {
  it.each([
    ['the first step', 1, 2, 2],
    ['a later step', 3, 5, 2],
    ['the last step', 4, 8, 2],
    // The checkpoint of the step before is then made of the weights that were taken back.
    ['the only update of a step', 3, 3, 1],
  ])('is taken back: %s', async (_, step, at, minibatches) => {
    const config = { steps: 4, evaluation: { every: 2, examples: 4 }, checkpoint: { every: 10 }, algorithm: { minibatches } };
    const outcome = await run({ config, backend: async () => new DivergingBackend(at) });
    expect(outcome).toMatchObject({ reason: 'stopped', step: step - 1, version: step - 1, resumable: true });
    expect(outcome.message).toMatch(
      new RegExp(
        `^Step ${step} was taken back, because the .*not finite\\. Its learning rate was 0.01; lower it, and continue from step ${step - 1}$`,
      ),
    );
    expect((await rowsOf(path)).filter(({ kind }) => kind === 'step').map((row) => row['step'])).toEqual(
      Array.from({ length: step - 1 }, (__, i) => i + 1),
    );
    expect(outcome.checkpoint?.split('/').at(-1)).toBe(step === 1 ? undefined : `step-00000${step - 1}`);
    // Its rollouts are used again, and nothing of it is left.
    let turns = 0;
    const resumed = await run({ config, onTurn: () => void turns++ });
    expect(resumed).toMatchObject({ reason: 'finished', version: 4 });
    // No checkpoint was passed over.
    expect((await eventsOf(path)).map(({ message }) => message).join('\n')).not.toContain('not usable');
    expect(turns).toBe(12 * (4 - step) + 4 * (step <= 2 ? 2 : 1));
    const whole = await undisturbed(config);
    expect(await finalAdapter(resumed, 'unigram.json')).toEqual(whole.adapter);
    expect(await rowsOf(path)).toEqual(whole.rows);
  });
});

describe('checkpoints that an older version wrote of weights which are not finite', () => {
  const config = { steps: 6, evaluation: { every: 0 }, checkpoint: { every: 2, keep: 2 } };

  /** Writes the checkpoint of a step again, with an infinite weight. */
  async function breakCheckpoint(step: number): Promise<void> {
    const folder = join(path, 'checkpoints');
    const [name] = (await readdir(folder)).filter((each) => each.startsWith(`step-${String(step).padStart(6, '0')}`));
    const { version, model, counters } = JSON.parse(await readFile(join(folder, name!, 'checkpoint.json'), 'utf8')) as {
      version: number;
      model: string;
      counters: Record<string, number>;
    };
    await new Checkpoints(folder).save({ step, version, model, counters }, async (directory) => {
      for (const part of ['state', 'adapter', 'parts']) await cp(join(folder, name!, part), join(directory, part), { recursive: true });
      const state = join(directory, 'state/unigram.json');
      await writeFile(state, (await readFile(state, 'utf8')).replace(/"logits":\[[^,]+/, '"logits":[1e999'));
    });
  }

  it('are passed over in one line, whichever is the newest good one, and deleted', async () => {
    await run({ config: { ...config, steps: 4 } });
    await breakCheckpoint(4);
    const outcome = await run({ config });
    expect(outcome).toMatchObject({ reason: 'finished', version: 6 });
    expect((await eventsOf(path)).filter(({ kind }) => ['alarm', 'resumed'].includes(kind)).map(({ message }) => message)).toEqual([
      'The checkpoint of step 4 is not usable, because the weights or the moments of the optimiser are not finite: this run continues from the checkpoint of step 2',
      'Resumed from the checkpoint of step 2, version 2: unigram; policy scripted',
    ]);
    expect((await readdir(join(path, 'checkpoints'))).toSorted()).toEqual(['step-000004.3', 'step-000006']);
    expect(await finalAdapter(outcome, 'unigram.json')).toEqual((await undisturbed(config)).adapter);
  });

  it('all of them, leave the recorded rollouts, from which the run starts again', async () => {
    await run({ config: { ...config, steps: 4 } });
    await breakCheckpoint(2);
    await breakCheckpoint(4);
    let turns = 0;
    const outcome = await run({ config, onTurn: () => void turns++ });
    expect(outcome).toMatchObject({ reason: 'finished', version: 6 });
    expect(turns).toBe(2 * 12);
    expect((await eventsOf(path)).find(({ kind }) => kind === 'alarm')!.message).toMatch(
      /^The checkpoints of steps 2, 4 are not usable, because .*: this run continues from its first step, with the recorded rollouts$/,
    );
    expect(await finalAdapter(outcome, 'unigram.json')).toEqual((await undisturbed(config)).adapter);
  });
});

describe('best/', () => {
  const config = { steps: 4, evaluation: { every: 1, examples: 4 }, checkpoint: { every: 2 } };
  const best = async () =>
    JSON.parse(await readFile(join(path, 'best/evaluation.json'), 'utf8')) as { step: number; version: number; reward_mean: number };
  const rewards = async () => {
    const rows = (await rowsOf(path)).filter(({ kind, step }) => kind === 'evaluation' && step !== 0);
    return rows.map((row) => row['reward_mean'] as number);
  };

  /** Held-out rewards that depend on the step, on top of what the text is worth. */
  const leveled = (levelOf: (step: number) => number) => {
    let level = 0;
    const worth = reward(({ modelText }: { readonly modelText: string }) => (modelText.length % 2) + level, { name: 'worth' });
    const onPhase = (phase: string, step: number) => void (level = phase === 'evaluation' ? levelOf(step) : 0);
    return { environment: new CountingEnv({ rows: 9, maxTurns: 1, rubric: new Rubric({ funcs: [worth] }) }), observer: { onPhase } };
  };
  /** Every version plays better than the start. */
  const better = () => leveled((step) => Math.min(step, 1));

  it('holds no adapter where no version plays better than the start', async () => {
    await run({ ...leveled((step) => -Math.min(step, 2)), config });
    expect((await readdir(path)).includes('best')).toBe(false);
  });

  it('holds the adapter of the version with the highest held-out reward, the first of several, with its step', async () => {
    await run({ ...better(), config });
    const found = await rewards();
    const highest = Math.max(...found);
    const step = found.indexOf(highest) + 1;
    expect(await best()).toMatchObject({ step, version: step, reward_mean: highest });
    const alone = await undisturbed({ ...config, steps: step }, better());
    expect(await readFile(join(path, 'best/adapter/unigram.json'))).toEqual(alone.adapter);
  });

  it('is chosen again where a resume discards the evaluation that chose it: among the checkpoints, then by what is played', async () => {
    // Held-out rewards are the highest after step 3, then after step 1; with the changed settings after step 4.
    const levels = [0, 2, 0, 4, 0];
    const every = { ...leveled((step) => levels[step]!), config: { ...config, checkpoint: { every: 1, keep: 9 } } };
    await run(every);
    expect(await best()).toMatchObject({ step: 3 });
    for (const name of ['step-000003', 'step-000004']) await rm(join(path, 'checkpoints', name), { recursive: true });
    const stop = new AbortController();
    await run({ ...every, signal: stop.signal, isUpdatedOtherwise: true, observer: { onPhase: () => stop.abort() } });
    expect(await best()).toMatchObject({ step: 1, version: 1 });
    const checkpoint = join(path, 'checkpoints/step-000001/adapter/unigram.json');
    expect(await readFile(join(path, 'best/adapter/unigram.json'))).toEqual(await readFile(checkpoint));
    expect((await eventsOf(path)).find(({ kind }) => kind === 'note')!.message).toBe(
      'best/ held the adapter of step 3, whose measurement is not recorded: it now holds the adapter of step 1',
    );
    levels.splice(3, 2, 0, 6);
    await run({ ...every, config: { ...every.config, optimizer: { learning_rate: 1e-6 } }, isUpdatedOtherwise: true });
    expect(await best()).toMatchObject({ step: 4 });
  });

  it('is removed where no checkpoint has an adapter that was measured, until the next evaluation', async () => {
    await run({ ...better(), config });
    await rm(join(path, 'checkpoints'), { recursive: true });
    const stop = new AbortController();
    await run({ ...better(), config, signal: stop.signal, isUpdatedOtherwise: true, observer: { onPhase: () => stop.abort() } });
    expect((await readdir(path)).includes('best')).toBe(false);
    expect((await eventsOf(path)).find(({ kind }) => kind === 'note')!.message).toMatch(/: the next measurement chooses it again$/);
  });

  it('is the same however the run was interrupted, and is not kept where the configuration says none', async () => {
    await run({ ...better(), config });
    const [expected, adapter] = [await best(), await readFile(join(path, 'best/adapter/unigram.json'))];
    path = await newRun(await mkdtemp(join(parent, 'interrupted-')));
    for (let i = 0; i < 8; i++) {
      const stop = new AbortController();
      const { environment, observer } = better();
      await run({ environment, config, signal: stop.signal, observer: { ...observer, onEvaluation: () => stop.abort() } });
    }
    expect(await run({ ...better(), config })).toMatchObject({ reason: 'finished' });
    expect([await best(), await readFile(join(path, 'best/adapter/unigram.json'))]).toEqual([expected, adapter]);
    path = await newRun(await mkdtemp(join(parent, 'none-')));
    await run({ ...better(), config: { ...config, checkpoint: { best: 'none' } } });
    expect((await readdir(path)).includes('best')).toBe(false);
  });
});

describe('a run whose steps were all skipped', () => {
  const config = { steps: 2, evaluation: { every: 0 } };
  const environment = new CountingEnv({ rows: 9, maxTurns: 1, rubric: new Rubric({ funcs: [reward(() => 1, { name: 'same' })] }) });

  it('has no result: it is stopped, says why and what to do, also when it is resumed, and a new run has more rollouts per row', async () => {
    const outcome = await run({ config, environment });
    expect(outcome).toMatchObject({
      reason: 'stopped',
      step: 2,
      version: 0,
      adapter: null,
      resumable: true,
      resumeFlags: null,
      newRun: { flags: ['-r', '8'] },
    });
    expect(outcome.message).toBe(
      'All 2 steps are done, but the policy is unchanged: each was skipped, the last because no group has two finished rollouts with different rewards. ' +
        `${SKIP_REMEDIES.constant}. Start a new run with other settings, or take further steps with -R and a larger --steps`,
    );
    expect(await run({ config, environment })).toMatchObject({ message: outcome.message, resumeFlags: null, newRun: outcome.newRun });
    expect(await run({ config: { ...config, steps: 3 } })).toMatchObject({ reason: 'finished', version: 3 });
  });
});
