/** Runs that are interrupted, lose their backend or are killed end like one left alone: the same weights to the bit, the same rows of metrics. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readlinkSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { GradientError } from '../../../src/core/errors.ts';
import { Random } from '../../../src/core/random.ts';
import { reward, Rubric } from '../../../src/core/rubric.ts';
import { TRAINING_PHASES } from '../../../src/trainer/training-observer.ts';
import type { TrainingOutcome } from '../../../src/trainer/training-session.ts';
import { CountingEnv } from '../../rollouts/counting-env.ts';
import { eventsOf, finalAdapter, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';
import { finishSmall, smallCommand, startSmall, untilPhases } from '../small-process.ts';
import { UnigramBackend } from '../unigram-backend.ts';

const KEPT = { checkpoint: { every: 2, keep: 2, keep_rollouts: true } };
const AHEAD = { ...KEPT, rollouts: { examples_per_step: 3, rollouts_per_example: 4, max_concurrent: 4, max_staleness: 1 } };
const backend = async () => new UnigramBackend();

let root: string;
let parent: string;
let path: string;
/** What an undisturbed run gives. */
let whole: { readonly adapter: Buffer; readonly rows: Record<string, unknown>[]; readonly path: string };
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'vf-whole-'));
  const at = await newRun(root);
  const outcome = await trainSmall(at, { backend, config: KEPT });
  whole = { path: at, adapter: await adapterOf(outcome), rows: await rowsOf(at) };
});
afterAll(() => rm(root, { recursive: true }));
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-resume-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

const adapterOf = (outcome: TrainingOutcome) => finalAdapter(outcome, 'unigram.json');

/** Empty for a link that has been closed meanwhile. */
function readlinkOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return '';
  }
}

/** The rollouts and evaluations of the undisturbed run, so that nothing has to be sampled. */
async function recorded(): Promise<string> {
  for (const folder of ['rollouts', 'evaluations']) await cp(join(whole.path, folder), join(path, folder), { recursive: true });
  return path;
}

async function expectWhole(outcome: TrainingOutcome): Promise<void> {
  expect(outcome).toMatchObject({ reason: 'finished', step: 6, version: 6, resumable: false });
  expect(await adapterOf(outcome)).toEqual(whole.adapter);
  expect(await rowsOf(path)).toEqual(whole.rows);
  const checkpoints = (await readdir(join(path, 'checkpoints'))).map((name) => name.replace(/\..*/, '')).toSorted();
  // An interrupted process leaves one of the step that it had finished.
  expect(checkpoints).toEqual([expect.stringMatching(/^step-00000[45]$/), 'step-000006']);
  const everything = await readdir(path, { recursive: true });
  expect(everything.filter((name) => /tmp|lock/.test(name))).toEqual([]);
}

/** Resumes until the run ends by itself, each time with the options that `next` gives. */
async function resumeUntilDone(next: (attempt: number) => Partial<SmallRunOptions>): Promise<{ outcome: TrainingOutcome; attempts: number }> {
  for (let attempts = 1; ; attempts++) {
    const outcome = await trainSmall(path, { backend, config: KEPT, ...next(attempts) });
    if (outcome.reason !== 'interrupted') return { outcome, attempts };
    expect(outcome.resumable).toBe(true);
    expect(attempts).toBeLessThan(60);
  }
}

describe('train from recorded rollouts', () => {
  it.each([
    ['in turn', KEPT],
    ['ahead', AHEAD],
  ])('samples nothing, publishes once, and reaches the same weights and rows: %s', async (_, config) => {
    await recorded();
    const onTurn = () => expect.fail('Expected nothing to be sampled');
    const published: number[] = [];
    const session: SmallRunOptions['session'] = (made) => {
      made.publisher.before = async () => void published.push(made.publisher.requests.at(-1)!.version);
      return made;
    };
    await expectWhole(await trainSmall(path, { backend, config, onTurn, session }));
    expect(published).toEqual([6]);
  });
});

describe('the times of a step', () => {
  const timesOf = async (at: string, name: string) =>
    (await readFile(join(at, 'metrics.jsonl'), 'utf8'))
      .trimEnd()
      .split('\n')
      .flatMap((line) => Object.entries(JSON.parse(line) as object).filter(([key]) => key === name));

  it('have no sampling and no rate of it if its rollouts were on file, and no time of an evaluation that was', async () => {
    await recorded();
    await trainSmall(path, { backend, config: KEPT });
    for (const name of ['rollouts_seconds', 'sampled_tokens_per_second', 'evaluation_seconds']) {
      const [sampled, onFile] = [await timesOf(whole.path, name), await timesOf(path, name)];
      expect(sampled.length).toBeGreaterThan(0);
      expect(sampled.every(([, value]) => value > 0)).toBe(true);
      expect(onFile).toEqual(sampled.map(() => [name, null]));
    }
  });
});

describe('a run that is interrupted', () => {
  it('before its first checkpoint says, once resumed, that recorded rollouts are used again', async () => {
    const first = async () => (await eventsOf(path)).find(({ kind }) => kind === 'started' || kind === 'resumed');
    await recorded();
    await trainSmall(path, { backend, config: KEPT });
    expect(await first()).toMatchObject({
      kind: 'resumed',
      step: 0,
      message: expect.stringContaining('rollouts that an earlier attempt recorded are used again'),
    });
  });

  it('says what was lost with metrics.jsonl, keeps best/, and reaches the same weights', async () => {
    const config = { ...KEPT, evaluation: { every: 2, examples: 4 }, checkpoint: { ...KEPT.checkpoint, best: 'reward' } };
    const stop = new AbortController();
    const onStep = ({ step }: { readonly step: number }) => void (step === 5 && stop.abort());
    await trainSmall(path, { backend, config, signal: stop.signal, observer: { onStep } });
    await mkdir(join(path, 'best/adapter'), { recursive: true });
    await writeFile(join(path, 'best/evaluation.json'), JSON.stringify({ step: 2, version: 2, reward_mean: 2 }));
    await rm(join(path, 'metrics.jsonl'));
    await trainSmall(path, { backend, config });
    const lost = (await eventsOf(path)).filter(({ message }) => message.startsWith('metrics.jsonl lacks'));
    expect(lost).toEqual([
      expect.objectContaining({ kind: 'alarm', message: expect.stringMatching(/the rows of \d steps from 1 to \d, which this run has trained/) }),
    ]);
    expect(await readFile(join(path, 'best/evaluation.json'), 'utf8')).toContain('"reward_mean":2');
  });

  const WAYS = [
    ['in turn', KEPT],
    ['ahead', AHEAD],
  ] as const;

  // There are no supervised steps to validate. A checkpoint is not interrupted: if everything is recorded, an abort before it ends the run after it.
  const ABORTABLE = TRAINING_PHASES.filter((phase) => phase !== 'checkpoint' && phase !== 'validation');

  it('in any phase of the third and the fourth step, every time it is resumed, ends like one that was not: in turn', async () => {
    expect(await interrupted(KEPT, (step) => step === 3 || step === 4)).toEqual(expect.arrayContaining(ABORTABLE));
  });

  it('in any phase of the third and the fourth step, every time it is resumed, ends like one that was not: ahead', async () => {
    // What is recorded is neither evaluated nor published again.
    expect((await interrupted(AHEAD, (step) => step === 3 || step === 4)).length).toBeGreaterThanOrEqual(5);
  });

  it.each(WAYS)('in any phase of any step, every time it is resumed, ends like one that was not: %s', { tags: 'long' }, async (_, config) => {
    expect(await interrupted(config, () => true)).toEqual(expect.arrayContaining(ABORTABLE));
  });

  /** Interrupts a run in every phase of the chosen steps, and expects it to end like one left alone. The phases. */
  async function interrupted(config: Record<string, unknown>, isChosen: (step: number) => boolean): Promise<string[]> {
    if (config === AHEAD) await recorded();
    const visited = new Set<string>();
    const { outcome, attempts } = await resumeUntilDone(() => {
      const stop = new AbortController();
      const onPhase = (phase: string, step: number) => {
        if (stop.signal.aborted || !isChosen(step) || visited.has(`${step} ${phase}`)) return;
        visited.add(`${step} ${phase}`);
        stop.abort();
      };
      return { config, signal: stop.signal, observer: { onPhase } };
    });
    await expectWhole(outcome);
    const phases = [...new Set([...visited].map((place) => place.split(' ')[1]!))];
    expect(attempts).toBeGreaterThan(phases.length);
    return phases;
  }

  it.each([
    ['while it samples', 'rollouts', 1],
    ['between two updates of a step', 'update', 2],
    ['between the only update of a step and its publishing', 'publish', 1],
  ])('%s, has a checkpoint of the last step that it finished, however far apart checkpoints are', async (_, phase, minibatches) => {
    const config = { ...KEPT, checkpoint: { every: 100, keep: 2, keep_rollouts: true }, algorithm: { minibatches } };
    const stop = new AbortController();
    const onPhase = (name: string, step: number) => {
      if (step === 4 && name === phase) stop.abort();
    };
    const before = phase === 'publish' ? 4 : 3;
    const outcome = await trainSmall(path, { backend, config, signal: stop.signal, observer: { onPhase } });
    expect(outcome).toMatchObject({ reason: 'interrupted', resumable: true, checkpoint: join(path, `checkpoints/step-00000${before}`) });
    // Nothing before it is trained again.
    const steps = new Set<number>();
    const done = await trainSmall(path, { backend, config, observer: { onPhase: (name, step) => void (name === 'update' && steps.add(step)) } });
    expect([...steps]).toEqual([4, 5, 6].filter((step) => step > before));
    const other = await newRun(await mkdtemp(join(parent, 'whole-')));
    const undisturbed = await trainSmall(other, { backend, config });
    expect(await adapterOf(done)).toEqual(await adapterOf(undisturbed));
  });

  it('while it samples ahead, keeps what was sampled and reaches the same weights', async () => {
    const random = Random.fromSeed(7);
    const begun = new Map<string, number>();
    const { outcome, attempts } = await resumeUntilDone((attempt) => {
      const stop = new AbortController();
      let left = attempt > 12 ? Infinity : 1 + random.integer(20);
      const onTurn = ({ key }: { readonly key: string | null }) => {
        begun.set(key!, (begun.get(key!) ?? 0) + 1);
        if (--left === 0) stop.abort();
      };
      return { config: AHEAD, signal: stop.signal, onTurn };
    });
    expect(attempts).toBeGreaterThan(5);
    expect(await adapterOf(outcome)).toEqual(whole.adapter);
    const rows = await rowsOf(path);
    expect(rows.filter(({ kind }) => kind === 'step').map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(rows.every(({ staleness }) => staleness === undefined || (staleness as number) <= 1)).toBe(true);
  });

  it.each([0, 1])('while generations hang that cannot be stopped, ends nevertheless: max_staleness %i', async (max_staleness) => {
    const stop = new AbortController();
    let isTraining = false;
    const onPhase = (phase: string) => void (isTraining ||= phase === 'forward');
    const onTurn = () => {
      if (!isTraining) return undefined;
      setImmediate(() => stop.abort());
      return new Promise<void>(() => {});
    };
    const config = { ...AHEAD, rollouts: { ...AHEAD.rollouts, max_staleness }, evaluation: { every: 0 } };
    const outcome = await trainSmall(path, { backend, config, signal: stop.signal, onTurn, observer: { onPhase } });
    expect(outcome).toMatchObject({ reason: 'interrupted', resumable: true });
    expect(await adapterOf(await trainSmall(path, { backend, config }))).toEqual(whole.adapter);
  });

  it('before anything was done, says so and can be resumed', async () => {
    const outcome = await trainSmall(path, { backend, config: KEPT, signal: AbortSignal.abort() });
    expect(outcome).toMatchObject({ reason: 'interrupted', step: 0, version: 0, adapter: null, checkpoint: null, resumable: true });
    await expectWhole(await trainSmall(path, { backend, config: KEPT }));
  });
});

describe('a backend that is lost', () => {
  const lost = () => new GradientError('Torch worker was killed (SIGKILL).', { code: 'lost' });

  it.each([
    ['in turn', KEPT],
    ['ahead', AHEAD],
  ])('at any call is replaced by another, and the run ends like one that kept its own: %s', { timeout: 60_000 }, async (_, config) => {
    if (config === AHEAD) await recorded();
    const random = Random.fromSeed(5);
    const made: UnigramBackend[] = [];
    const failing = async () => {
      let left = made.length < 12 ? 1 + random.integer(25) : Infinity;
      made.push(
        new UnigramBackend(() => {
          if (--left === 0) throw lost();
        }),
      );
      return made.at(-1)!;
    };
    await expectWhole(await trainSmall(path, { backend: failing, config: { ...config, backend: { max_tokens: 200, max_restarts: 20 } } }));
    expect(made.length).toBeGreaterThan(8);
    expect(made.every(({ isClosed }) => isClosed)).toBe(true);
    const events = await eventsOf(path);
    expect(events.filter(({ kind }) => kind === 'backend_lost')).toHaveLength(made.length - 1);
  });

  it('to memory is replaced by one with half the token budget', async () => {
    let made = 0;
    const failing = async () => {
      const isFirst = made++ === 0;
      let calls = 0;
      return new UnigramBackend((call) => {
        if (isFirst && call === 'backward' && ++calls === 3)
          throw new GradientError('Torch worker rank 1 exited with code 6', { code: 'lost', needsSmallerBatches: true });
      });
    };
    expect(await trainSmall(path, { backend: failing, config: { ...KEPT, backend: { max_tokens: 200 } } })).toMatchObject({ reason: 'finished' });
    const events = (await eventsOf(path)).filter(({ kind }) => kind === 'backend_lost' || kind.startsWith('token_budget'));
    expect(events.slice(0, 2).map(({ kind, message }) => [kind, message])).toEqual([
      ['backend_lost', 'Torch worker rank 1 exited with code 6. A new backend continues from the last checkpoint'],
      ['token_budget_halved', expect.stringMatching(/now have at most 100 tokens$/)],
    ]);
  });

  it.each([
    ['saveState', 2],
    ['saveAdapter', 3],
  ] as const)('in %s between two checkpoints leaves none that lacks weights', async (call, at) => {
    expect(await restarts(call, [at])).toBe(1);
  });

  it.each(['saveState', 'saveAdapter'] as const)(
    'in any %s between two checkpoints leaves none that lacks weights',
    { tags: 'long' },
    async (call) => {
      expect(await restarts(call, [1, 2, 3, 4])).toBeGreaterThan(2);
    },
  );

  /** How often a backend was lost. */
  async function restarts(call: 'saveState' | 'saveAdapter', times: readonly number[]): Promise<number> {
    let losses = 0;
    for (const at of times) {
      let calls = 0;
      const failing = async () =>
        new UnigramBackend((each) => {
          if (each === call && ++calls === at) throw lost();
        });
      path = await newRun(await mkdtemp(join(parent, 'again-')));
      await recorded();
      const config = { checkpoint: { ...KEPT.checkpoint, every: 6 } };
      expect(await adapterOf(await trainSmall(path, { backend: failing, config }))).toEqual(whole.adapter);
      expect(await rowsOf(path)).toEqual(whole.rows);
      losses += (await eventsOf(path)).filter(({ kind }) => kind === 'backend_lost').length;
    }
    return losses;
  }

  it.runIf(existsSync('/proc/self/fd'))('is closed only when nothing writes to the rollouts any more, because its successor will', async () => {
    const isAhead = Promise.withResolvers<void>();
    let isLost = false;
    const dying = async () => {
      const made = new UnigramBackend((call) => {
        if (call === 'backward' && !isLost) {
          isLost = true;
          throw lost();
        }
      });
      const zeroGrad = made.zeroGrad.bind(made);
      return Object.assign(made, { zeroGrad: () => isAhead.promise.then(zeroGrad) });
    };
    const held: string[][] = [];
    const openFiles = () => readdirSync('/proc/self/fd').map((fd) => readlinkOf(`/proc/self/fd/${fd}`));
    const session: SmallRunOptions['session'] = (made) => ({
      ...made,
      async [Symbol.asyncDispose]() {
        held.push(openFiles().filter((file) => file.startsWith(join(path, 'rollouts'))));
        await made[Symbol.asyncDispose]();
      },
    });
    let turns = 0;
    // The first step has twelve turns: any further turn is one of the next step, whose file is open.
    const onTurn = () => {
      if (++turns > 12) isAhead.resolve();
    };
    const config = { ...AHEAD, evaluation: { every: 0 } };
    const outcome = await trainSmall(path, { backend: dying, config, session, onTurn });
    expect([outcome.reason, held]).toEqual(['finished', [[], []]]);
  });

  it('too often stops the run with its own error, and the run can be resumed', async () => {
    let calls = 0;
    const dying = async () =>
      new UnigramBackend((call) => {
        if (call === 'optimStep' && ++calls >= 3) throw lost();
      });
    const outcome = await trainSmall(path, { backend: dying, config: { ...KEPT, backend: { max_tokens: 200, max_restarts: 2 } } });
    expect(outcome).toMatchObject({ reason: 'stopped', resumable: true, message: lost().message });
    expect((await eventsOf(path)).filter(({ kind }) => kind === 'backend_lost')).toHaveLength(2);
    await expectWhole(await trainSmall(path, { backend, config: KEPT }));
  });

  it('is replaced even when its session cannot be closed cleanly', async () => {
    let calls = 0;
    const dying = async () =>
      new UnigramBackend((call) => {
        if (call === 'backward' && ++calls === 9) throw lost();
      });
    const session: SmallRunOptions['session'] = (made) => ({
      ...made,
      async [Symbol.asyncDispose]() {
        await made[Symbol.asyncDispose]();
        if (calls === 9) throw new TypeError('a pipe that broke');
      },
    });
    const closing = trainSmall(path, { backend: dying, config: KEPT, session: (made) => (calls < 9 ? session(made) : made) });
    const outcome = await closing;
    expect(calls).toBeGreaterThan(9);
    await expectWhole(outcome);
  });
});

const canMount = spawnSync('unshare', ['-Urm', 'true']).status === 0;

describe.runIf(canMount)('a disk that is too full for a checkpoint', () => {
  it('is reported each time, stops the run at its end, and costs it nothing but time', async () => {
    const child = spawn(
      'unshare',
      ['-Urm', 'sh', '-c', `mount -t tmpfs -o size=8k tmpfs ${path}/checkpoints && exec "$@"`, 'sh', ...smallCommand(path, { config: KEPT })],
      { stdio: ['ignore', 'pipe', 'ignore'] },
    );
    const outcome = JSON.parse(await text(child.stdout)) as TrainingOutcome;
    expect(outcome).toMatchObject({
      reason: 'stopped',
      step: 6,
      checkpoint: null,
      adapter: null,
      message: expect.stringMatching(/disk is full/) as string,
    });
    const alarms = (await eventsOf(path)).filter(({ kind }) => kind === 'alarm');
    expect(alarms.map(({ step }) => step)).toEqual([2, 4]);
    for (const { message } of alarms) expect(message).toMatch(/the disk is full; free some space/);
    await expectWhole(await trainSmall(path, { backend, config: KEPT, onTurn: () => expect.fail('Expected nothing to be sampled') }));
  });
});

describe('a file that can grow no more', () => {
  it('ends the run, which says so even though the file cannot be closed cleanly either', async () => {
    const config = { steps: 20, evaluation: { every: 0 }, checkpoint: { every: 100 }, rollouts: { examples_per_step: 2, rollouts_per_example: 2 } };
    // The rows of metrics reach that size within a few steps, the other files in no step.
    const child = spawn('sh', ['-c', 'ulimit -f 20 && exec "$@"', 'sh', ...smallCommand(path, { config })], { stdio: ['ignore', 'ignore', 'pipe'] });
    expect(await text(child.stderr)).toMatch(/ResultsError: Could not write .*metrics\.jsonl: file too large \(EFBIG\)/);
  });
});

describe('a process that is killed at random moments', () => {
  it('leaves a run that ends, once resumed, like one that was never killed', async () => {
    expect(await killed(KEPT, 3, 2)).toBeGreaterThan(0);
  });

  it.each([
    ['in turn', KEPT, 3],
    ['ahead, from recorded rollouts', AHEAD, 8],
  ])('leaves, five times, a run that ends, once resumed, like one that was never killed: %s', { tags: 'long' }, async (_, config, seed) => {
    if (config === AHEAD) await recorded();
    expect(await killed(config, seed, 5)).toBeGreaterThan(1);
  });

  /** Kills the process of a run so often, if it has not ended, and expects the run to end like one left alone. How often it was killed. */
  async function killed(config: Record<string, unknown>, seed: number, rounds: number): Promise<number> {
    const random = Random.fromSeed(seed);
    let kills = 0;
    for (let round = 0; round < rounds; round++) {
      const child = startSmall(path, { config, slowMs: 4 });
      await untilPhases(child, 1 + random.integer(25));
      if (child.exitCode === null) {
        child.kill('SIGKILL');
        kills++;
        await once(child, 'close');
      }
    }
    await expectWhole(await finishSmall(path, { config }));
    return kills;
  }
});

describe('an environment whose training rows have changed', () => {
  it('raises an alarm, and the run goes on', async () => {
    const odd = reward(({ modelText }) => modelText.length % 2, { name: 'odd' });
    const rows = (count: number) => new CountingEnv({ rows: count, maxTurns: 1, rubric: new Rubric({ funcs: [odd] }) });
    await trainSmall(path, { backend, config: { steps: 2 }, environment: rows(9) });
    expect((await trainSmall(path, { backend, config: { steps: 4 }, environment: rows(9) })).step).toBe(4);
    expect((await eventsOf(path)).filter(({ kind }) => kind === 'alarm')).toEqual([]);
    expect(await trainSmall(path, { backend, config: { steps: 6 }, environment: rows(8) })).toMatchObject({ reason: 'finished', step: 6 });
    const alarms = (await eventsOf(path)).filter(({ kind }) => kind === 'alarm');
    expect(alarms).toEqual([expect.objectContaining({ message: expect.stringContaining('9 rows then, 8 now') })]);
  });
});
