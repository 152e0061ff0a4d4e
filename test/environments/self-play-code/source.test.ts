import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_LIMITS, openExecutor } from 'vf-search/execution';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createSource, playedRoles } from '../../../environments/self-play-code/source.ts';
import { type GivenProgram, SelfPlayEnv } from '../../../environments/self-play-code/self-play-env.ts';
import { DEFAULT_SETTINGS, type SelfPlaySettings } from '../../../environments/self-play-code/settings.ts';
import type { NamedTask } from '../../../environments/self-play-code/load-tasks.ts';
import type { Environment } from '../../../src/core/environment.ts';
import { ScriptedClient } from '../../../src/clients/scripted.ts';
import type { CodeExecutor } from '../../../src/execution/code-executor.ts';
import { presetNamed } from '../../../src/sessions/environment/presets.ts';
import { presetLayer } from '../../../src/trainer/config/preset.ts';
import { resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';
import { withPlayedRoles } from '../../../src/trainer/losses/loss-roles.ts';
import { checkedSource } from '../../../src/trainer/sources/checked-source.ts';
import { eventsOf, finalAdapter, newRun, rowsOf, trainSmall, type SmallRunOptions } from '../../trainer/small-run.ts';
import { someConfig } from '../../trainer/some-config.ts';
import { trajectory } from '../../trainer/some-trajectories.ts';
import { UnigramBackend } from '../../trainer/unigram-backend.ts';
import { type PlayerOptions, scriptedPlayer } from './scripted-player.ts';
import { rolloutNames, rolloutText } from '../../trainer/kept-rollouts.ts';

let executor: CodeExecutor;
let parent: string;
let path: string;
beforeAll(async () => {
  executor = await openExecutor('wasi', { workers: 1 });
});
afterAll(() => executor.close());
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-self-play-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

const appending = (digit: string, id: string): NamedTask => ({
  id,
  step: null,
  record: { kind: 'code_o', snippet: `def f(a):a=a+'${digit}';return a`, input: "'1'", output: `'1${digit}'`, imports: [] },
});
/** Nobody proposes it unless a test says so. */
const HELD_OUT = [appending('55', 'held-out')];

interface Game {
  readonly settings?: Partial<SelfPlaySettings>;
  readonly player?: PlayerOptions;
  readonly heldOut?: readonly NamedTask[];
  readonly given?: readonly GivenProgram[];
  readonly run?: Partial<SmallRunOptions>;
  readonly config?: Record<string, unknown>;
}

const KEPT = { evaluation: { every: 0 }, checkpoint: { every: 2, keep: 2, keep_rollouts: true } };
const BY_ROLE = { old_log_probs: 'sampler', correction: { level: 'none' }, advantage: { scope: 'role_task' } };

function gameOf({ settings = {}, heldOut = HELD_OUT, given }: Game): SelfPlayEnv {
  // The environment owns its executor; the tests share one.
  const shared: CodeExecutor = {
    capabilities: executor.capabilities,
    run: (job, o) => executor.run(job, o),
    analyse: (code, o) => executor.analyse(code, o),
    close: async () => {},
  };
  return new SelfPlayEnv({
    settings: { ...DEFAULT_SETTINGS, prompt: 'mini', inputCount: 4, references: 0, kinds: ['code_o', 'code_i'], rewards: 'azr', ...settings },
    heldOut,
    seeds: [appending('0', 'seed')],
    ...(given === undefined ? {} : { given }),
    executor: shared,
    // Enough for every program, however busy the machine is.
    limits: { ...DEFAULT_LIMITS, seconds: 30 },
  });
}

function play({ player, run = {}, config = {}, ...game }: Game = {}) {
  return trainSmall(path, {
    environment: gameOf(game) as unknown as Environment,
    createSource: checkedSource(createSource, 'self-play-code'),
    backend: async () => new UnigramBackend(),
    session: (session) => ({ ...session, client: new ScriptedClient({ turns: scriptedPlayer(player), versions: session.versions, logProb: -2 }) }),
    config: {
      steps: 3,
      rollouts: { examples_per_step: 6, rollouts_per_example: 4, max_concurrent: 8, max_tokens: 200 },
      algorithm: BY_ROLE,
      ...KEPT,
      ...config,
    },
    ...run,
  });
}

/** The mean reward of a role, whose metrics are by kind of task. */
function meanOf(row: Record<string, unknown>, role: string, counts: readonly number[]): number {
  const means = ['code_o', 'code_i'].map((kind) => row[`reward/${role}/${kind}`] as number);
  return means.reduce((sum, each, i) => sum + each * counts[i]!, 0) / counts.reduce((sum, count) => sum + count, 0);
}

async function linesOf(file: string): Promise<Record<string, unknown>[]> {
  const [folder, name] = file.split('/');
  const text = folder === 'rollouts' ? rolloutText(path, name!) : await readFile(join(path, file), 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('playedRoles of self-play-code', () => {
  const played = (settings: Partial<SelfPlaySettings>, given?: readonly GivenProgram[]) =>
    playedRoles({ config: someConfig({}), environment: gameOf({ settings, ...(given === undefined ? {} : { given }) }) as unknown as Environment });

  it("checks the preset's betas by the names of the document, and takes critic for critique", () => {
    const preset = presetLayer(presetNamed('crsp', 'self-play-code'));
    const betaOf = (...changes: Record<string, unknown>[]) => {
      const layers = changes.map((beta) => ({ source: '--set', table: { algorithm: { loss: { args: { beta } } } } }));
      const { config } = resolveTrainingConfig([preset, { source: 'test', table: { policy: { base_url: 'http://h/v1' } } }, ...layers]);
      return withPlayedRoles(config, played({ rewards: 'crsp', critics: 2 })).algorithm.loss.args['beta'];
    };
    const beta = { propose: 0.01, solve: 0.05, critique: 0.1 };
    expect(betaOf()).toEqual(beta);
    expect(betaOf({ propose: 0.01, solve: 0.05, critic: 0.1 })).toEqual(beta);
    expect(() => betaOf({ propose: 0.01, solve: 0.05, judge: 0.1 })).toThrow(
      'names the role "judge", but this run has the roles propose, solve, critique',
    );
    expect(() => betaOf({ propose: 0.01, solve: 0.05 })).toThrow('beta has no value for the role "critique"');
  });

  it('says which roles a run trains', () => {
    const trained = (...run: Parameters<typeof played>) =>
      Object.entries(played(...run)).flatMap(([role, { isTrained = true }]) => (isTrained ? [role] : []));
    expect(trained({})).toEqual(['propose', 'solve']);
    expect(trained({ rewards: 'crsp', critics: 2, trainPropose: false })).toEqual(['solve', 'critique']);
    expect(trained({}, [])).toEqual(['solve']);
  });
});

describe('createSource of self-play-code', () => {
  it('plays proposals, then their solutions, and pays both by Absolute Zero', async () => {
    const outcome = await play();
    expect(outcome.reason).toBe('finished');
    expect(rolloutNames(path)).toEqual(
      [1, 2, 3].flatMap((step) => ['propose', 'propose_rewards', 'solve'].map((name) => `step-00000${step}.${name}.jsonl`)),
    );
    const rows = await rowsOf(path);
    for (const row of rows) {
      expect(row).toMatchObject({ 'source/proposals': 12, 'source/held_out': 0, 'source/unprobed': 0 });
      expect(row['source/valid']).toBeGreaterThan(0.3);
      expect(row['source/statements']).toBe(1);
    }
    const programs = await linesOf('source/programs.jsonl');
    expect(programs.length).toBe(rows.reduce((sum, row) => sum + Math.round(12 * (row['source/valid'] as number)), 0));
    expect(programs[0]).toMatchObject({
      step: 1,
      kind: 'code_o',
      code: expect.stringContaining('def f(a)') as string,
      accuracy: expect.any(Number) as number,
    });
    const solved = await linesOf('rollouts/step-000001.solve.jsonl');
    const rewards = new Set(solved.flatMap(({ reward }) => (typeof reward === 'number' ? [reward] : [])));
    expect([...rewards].toSorted((a, b) => a - b)).toEqual([-0.5, 1]);
    const proposed = await linesOf('rollouts/step-000001.propose.jsonl');
    expect(proposed.filter(({ rollout_id }) => rollout_id !== undefined).every(({ unpaid, reward }) => unpaid === true && reward === null)).toBe(
      true,
    );
    const paid = (await linesOf('rollouts/step-000001.propose_rewards.jsonl')).map((line) => line['reward'] as number);
    expect(paid).toHaveLength(12);
    expect(paid.reduce((sum, reward) => sum + reward, 0) / 12).toBeCloseTo(meanOf(rows[0]!, 'propose', [6, 6]), 9);
  });

  const CASES = [
    ['azr', {}, {}],
    ['crsp', { rewards: 'crsp', critics: 2 }, {}],
    ['azr with replay and without probes', { trainProbes: false, mix: 'half_new', novelty: true }, {}],
    ['azr without a valid proposal', { kinds: ['code_o', 'code_i'] }, { valid: 0 }],
  ] as const satisfies [string, Game['settings'], PlayerOptions][];

  const FEW = { rollouts: { examples_per_step: 4, rollouts_per_example: 3, max_concurrent: 8, max_tokens: 200 } };
  it.each(CASES)('takes an interrupted step again to the same weights, rows and programs (%s)', async (_, settings, player) => {
    expect(await interrupted(settings, player, (step) => step === 2, { steps: 2, ...('valid' in player ? {} : FEW) })).toBeGreaterThan(5);
  });

  it.each(CASES)('takes any interrupted step again to the same weights, rows and programs (%s)', { tags: 'long' }, async (_, settings, player) => {
    expect(await interrupted(settings, player, () => true)).toBeGreaterThan(8);
  });

  /** Interrupts a run in every phase of the chosen steps, and expects it to end like one left alone. How often it was interrupted. */
  async function interrupted(
    settings: Partial<SelfPlaySettings>,
    player: PlayerOptions,
    isChosen: (step: number) => boolean,
    config = {},
  ): Promise<number> {
    const whole = await finalAdapter(await play({ settings, player, config }), 'unigram.json');
    // A run without a valid proposal has no such file.
    const programsOf = () => linesOf('source/programs.jsonl').catch(() => []);
    const [rows, programs] = [await rowsOf(path), await programsOf()];
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    const visited = new Set<string>();
    let outcome;
    let starts = 0;
    do {
      const stop = new AbortController();
      const once = (name: string) => {
        if (stop.signal.aborted || visited.has(name)) return;
        visited.add(name);
        stop.abort();
      };
      const observer = {
        onPhase: (phase: string, step: number) => void (isChosen(step) && once(`${phase} ${step}`)),
        // In the middle of each phase of a step.
        onRollouts: ({ step, done, total }: { step: number; done: number; total: number }) =>
          void (done === Math.ceil(total / 2) && step === 2 && once(`${total} of ${step}`)),
      };
      outcome = await play({ settings, player, config, run: { signal: stop.signal, observer } });
    } while (outcome.reason === 'interrupted' && ++starts < 60);
    expect(await finalAdapter(outcome, 'unigram.json')).toEqual(whole);
    expect(await rowsOf(path)).toEqual(rows);
    expect(await programsOf()).toEqual(programs);
    return starts;
  }

  it('asks critics once more where a reply has no grade, and trains on none that stays without', async () => {
    await play({ settings: { rewards: 'crsp', critics: 2 }, player: { graded: 50 }, config: { steps: 1 } });
    const [row] = await rowsOf(path);
    const paid = ['solve', 'critic', 'retry'].map((phase) => linesOf(`rollouts/step-000001.${phase}_rewards.jsonl`));
    const [solved, ...graded] = (await Promise.all(paid)).map((lines) => lines.map((line) => line['metrics'] as Record<string, number>));
    expect(solved!.some(({ length_reward: length }) => length! > 0)).toBe(true);
    expect(graded.flat().every(({ grade, agreement }) => grade! >= 0 && (agreement === 0 || agreement === 1))).toBe(true);
    expect(graded.flat()).toHaveLength(row!['source/critiques'] as number);
    const first = (await linesOf('rollouts/step-000001.critic.jsonl')).filter(({ rollout_id }) => rollout_id !== undefined);
    const again = (await linesOf('rollouts/step-000001.retry.jsonl')).filter(({ rollout_id }) => rollout_id !== undefined);
    const malformed = (row!['source/critiques_malformed'] as number) ?? 0;
    expect(again.length).toBeGreaterThan(first.length / 4);
    expect(malformed).toBeGreaterThan(0);
    expect(row!['source/critiques']).toBe(first.length - malformed);
    expect(row).toMatchObject({ 'source/alpha_solve': 0.3, 'source/alpha_critique': 0.1 });
  });

  it('counts its steps from the first one on rollouts, for the schedule of the weights and the examples', async () => {
    const shown = (at: number) => ({ rolloutId: `row-${at}/0`, groupId: `row-${at}`, reward: null, logProbs: null });
    const training = [0, 1].map((at) => trajectory(`row-${at}/0`, { ...shown(at), error: null, metrics: {} }));
    const config = { steps: 2, sft: { data: 'rows.jsonl', steps: 3, batch_size: 2 }, rollouts: { examples_per_step: 2, rollouts_per_example: 2 } };
    await play({ settings: { rewards: 'crsp', critics: 0 }, config, run: { demonstrations: { training, validation: [] } } });
    const rows = await rowsOf(path);
    const weights = rows.map((row) => row['source/alpha_solve']);
    expect(weights).toEqual([undefined, undefined, undefined, 0.3, expect.closeTo(0.675, 12)]);
    const notes = (await eventsOf(path)).filter(({ kind, message }) => kind === 'note' && message.includes('proposes'));
    expect(notes.map(({ step, message }) => `${step} ${message.slice(0, 6)}`)).toEqual(['4 Step 1', '5 Step 2']);
  });

  it('lets the solver play earlier programs where no proposal is valid, and says so', async () => {
    await play({ player: { valid: 0 }, config: { steps: 1 } });
    const notes = (await eventsOf(path)).filter(({ kind }) => kind === 'note').map(({ message }) => message);
    expect(notes).toEqual(['No proposal of step 1 is valid, so the solver plays 4 solutions of earlier programs.']);
    const played = (await linesOf('rollouts/step-000001.replay.jsonl')).flatMap(({ rollout_id }) =>
      typeof rollout_id === 'string' ? [rollout_id] : [],
    );
    expect(played).toHaveLength(4);
    const [row] = await rowsOf(path);
    expect(row).toMatchObject({ 'source/valid': 0, 'source/learnability': null, 'source/own_accuracy': null });
  });

  it('refuses held-out programs, however they are spelled, and trains on none of them', async () => {
    const digits = '0123456789'.split('');
    await play({
      heldOut: digits.map((digit) => ({
        ...appending(digit, digit),
        record: { ...appending(digit, digit).record, snippet: `def f(a):\n    a = a + '${digit}'\n    return a` },
      })),
      config: { steps: 1 },
    });
    const [row] = await rowsOf(path);
    expect(row!['source/held_out']).toBeGreaterThan(3);
    expect(row).toMatchObject({ 'source/valid': 0 });
    const trained = await linesOf('rollouts/step-000001.replay.jsonl');
    expect(trained.length).toBeGreaterThan(1);
  });

  it('counts repeated programs, and with novelty pays them as what cannot be learned from', async () => {
    await play({ settings: { novelty: true } });
    const last = (await rowsOf(path)).at(-1)!;
    expect(last['source/repeated']).toBeGreaterThan(0.5);
    // There are ten programs in all.
    expect(last['reward/propose/code_o'] as number).toBeLessThan(-0.2);
  });

  it('pays bonuses to proposals that can be learned from, and to no other', async () => {
    const rewardsOf = async () => (await rowsOf(path)).map((row) => row['reward/propose/code_o'] as number);
    await play({ config: { steps: 1 } });
    const [plain] = await rewardsOf();
    path = await newRun(await mkdtemp(join(parent, 'bonus-')));
    await play({ settings: { bonuses: { diversity: { coef: 0.25 }, halstead: { coef: 0.001 } } }, config: { steps: 1 } });
    const [paid] = await rewardsOf();
    const [row] = await rowsOf(path);
    // Of six proposals some are solved sometimes; each of those is paid at most 0.25 more, and less if its result is known.
    expect(paid! - plain!).toBeGreaterThan(0.03);
    expect(paid! - plain!).toBeLessThan(0.26);
    expect(row!['rubric/halstead']).toBeGreaterThan(0);
    expect(row!['rubric/edit_distance']).toBe(0);
  });

  it('plays given programs in place of proposals, those of a step in that step', async () => {
    const record = (digit: string) => appending(digit, digit).record;
    await play({
      given: [
        { step: 2, record: record('7') },
        { step: null, record: record('8') },
        { step: null, record: record('9') },
      ],
      config: { steps: 2 },
    });
    const programs = await linesOf('source/programs.jsonl');
    expect(programs.map(({ step, code }) => `${String(step)} ${(code as string).slice(14, 15)}`)).toEqual(['1 8', '1 9', '2 7', '2 8', '2 9']);
  });
});
