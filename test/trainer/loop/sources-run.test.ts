/** Runs whose trajectories come from elsewhere: a source of several phases, refilled groups, rollouts from a file. */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CancelledError, GradientError } from '../../../src/core/errors.ts';
import { moduleFault } from '../../../src/core/module-fault.ts';
import { reward, Rubric } from '../../../src/core/rubric.ts';
import type { RolloutExport } from '../../../src/schemas/rollout-export.ts';
import { RolloutFileSource } from '../../../src/trainer/sources/rollout-file-source.ts';
import { checkedSource } from '../../../src/trainer/sources/checked-source.ts';
import { withReward } from '../../../src/trainer/trajectory.ts';
import type { CreateSource } from '../../../src/trainer/trajectory-source.ts';
import { CountingEnv } from '../../rollouts/counting-env.ts';
import { trajectory } from '../some-trajectories.ts';
import { rolloutNames, rolloutText } from '../kept-rollouts.ts';
import { eventsOf, finalAdapter, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';
import { UnigramBackend } from '../unigram-backend.ts';

const linesOf = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-sources-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

const KEPT = { evaluation: { every: 0 }, checkpoint: { every: 2, keep: 2, keep_rollouts: true } };
const run = ({ config = {}, ...options }: Partial<SmallRunOptions> & { readonly config?: Record<string, unknown> } = {}) =>
  trainSmall(path, { backend: async () => new UnigramBackend(), ...options, config: { ...KEPT, steps: 4, ...config } });
const adapterOf = (outcome: Parameters<typeof finalAdapter>[0]) => finalAdapter(outcome, 'unigram.json');

const EVERY_STEP = [1, 2, 3, 4];

/** Resumes after an abort in every phase of these steps, until the run ends by itself. */
async function interrupted(options: Parameters<typeof run>[0], steps: readonly number[] = [2]) {
  const visited = new Set<string>();
  for (let attempts = 0; attempts < 80; attempts++) {
    const stop = new AbortController();
    const onPhase = (phase: string, step: number) => {
      if (stop.signal.aborted || !steps.includes(step) || visited.has(`${step} ${phase}`)) return;
      visited.add(`${step} ${phase}`);
      stop.abort();
    };
    const outcome = await run({ ...options, signal: stop.signal, observer: { onPhase } });
    if (outcome.reason === 'interrupted') continue;
    expect(attempts).toBeGreaterThan(2);
    return outcome;
  }
  throw new Error('Expected the run to end');
}

describe('a source of several phases', () => {
  /** Proposals are answered in a second phase; its state is the number of batches taken. */
  const createSource: CreateSource = ({ play, environment, config, isRecorded }) => {
    let taken = 0;
    return {
      async take(step, signal) {
        const rows = [0, 1, 2].map((i) => environment.train.at((3 * step + i) % environment.train.length));
        const proposed = await play({ step, phase: 'propose', role: 'propose', rows, rolloutsPerExample: 2 }, signal);
        const solved = await play({ step, phase: 'solve', role: 'solve', rows: rows.slice(0, 2) }, signal);
        taken++;
        const named = proposed.trajectories.map((each) => ({ ...each, groupId: `propose ${each.groupId}` }));
        return { trajectories: [...named, ...solved.trajectories], attempts: 2, values: { 'source/taken': taken, 'source/asked': config.steps } };
      },
      needsPolicy: (step) => !isRecorded(step, 'solve'),
      saveState: (directory) => writeFile(join(directory, 'taken'), String(taken)),
      async loadState(directory) {
        taken = Number(await readFile(join(directory, 'taken'), 'utf8'));
      },
    };
  };

  it('has each phase on file by itself, roles in its trajectories, and metrics of its own', async () => {
    const byRole = { advantage: { scope: 'role_task' } };
    await run({ createSource, config: { algorithm: { old_log_probs: 'sampler', correction: { level: 'none' }, ...byRole } } });
    expect(rolloutNames(path)).toEqual([1, 2, 3, 4].flatMap((step) => [`step-00000${step}.propose.jsonl`, `step-00000${step}.solve.jsonl`]));
    const rows = await rowsOf(path);
    expect(rows.map((each) => [each['rollouts'], each['groups'], each['source/taken'], each['source/asked']])).toEqual([
      [14, 2, 1, 4],
      [14, 2, 2, 4],
      [14, 2, 3, 4],
      [14, 2, 4, 4],
    ]);
  });

  it('repeats only what is missing after an interruption, and ends with the same weights and rows', async () => {
    const whole = await adapterOf(await run({ createSource }));
    const rows = await rowsOf(path);
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    const sampled = new Map<string, number>();
    const onTurn = ({ key }: { readonly key: string | null }) => void sampled.set(key!, (sampled.get(key!) ?? 0) + 1);
    expect(await adapterOf(await interrupted({ createSource, onTurn }))).toEqual(whole);
    expect(await rowsOf(path)).toEqual(rows);
  });
});

describe('a source that pays its proposals afterwards', () => {
  /** A proposal is worth how often its two probes differ; one whose probes agree is left out of the batch. */
  const createSource: CreateSource = ({ play, environment, isRecorded }) => ({
    async take(step, signal) {
      const rows = [0, 1, 2].map((i) => environment.train.at((3 * step + i) % environment.train.length));
      const proposed = await play({ step, phase: 'propose', role: 'propose', rows, rolloutsPerExample: 2, isPaidLater: true }, signal);
      for (const each of proposed.trajectories)
        expect(each).toMatchObject({ reward: null, error: null, metrics: { coin: expect.any(Number) as number } });
      const tasks = proposed.trajectories.map(({ rolloutId }) => ({ ...rows[0]!, exampleId: `task ${rolloutId}`, task: 'answer' }));
      const probes = await play({ step, phase: 'solve', role: 'solve', rows: tasks, rolloutsPerExample: 2 }, signal);
      const worth = (place: number) => Math.abs(probes.trajectories[2 * place]!.reward! - probes.trajectories[2 * place + 1]!.reward!);
      const named = proposed.trajectories.map((each) => ({ ...each, groupId: `propose ${each.groupId}` }));
      const paid = named.flatMap((each, i) => (i % 3 === 2 ? [] : [withReward(each, worth(i), { worth: worth(i) })]));
      const tally = paid.map(({ rolloutId, reward: worthOf }) => ({ proposal: rolloutId, worth: worthOf }));
      const left = named.filter((_, i) => i % 3 === 2);
      return {
        trajectories: [...paid, ...probes.trajectories],
        discarded: left,
        attempts: 2,
        notes: [`first: ${tally[0]!.worth}`, `paid ${paid.length}`],
        records: { proposals: tally, left: left.map(({ rolloutId }) => ({ rolloutId })) },
      };
    },
    needsPolicy: (step) => !isRecorded(step, 'solve'),
    saveState: async () => {},
    loadState: async () => {},
  });

  it('trains on the rewards that it gives, records none for a proposal, and counts what it leaves out', async () => {
    await run({ createSource: checkedSource(createSource, 'mine'), config: { algorithm: { advantage: { scope: 'role_task' } } } });
    const line = rolloutText(path, 'step-000001.propose.jsonl').split('\n')[0]!;
    const [probe] = linesOf(rolloutText(path, 'step-000001.solve.jsonl'));
    expect(probe).toMatchObject({ role: 'solve', task: 'answer', reward: expect.any(Number) as number });
    expect(JSON.parse(line)).toMatchObject({ reward: null, error: null, unpaid: true, role: 'propose' });
    for (const row of await rowsOf(path)) {
      expect(row).toMatchObject({ rollouts: 18, rollouts_failed: 0, failed: 0, groups: 2, optimizer_steps: 2 });
      // The rubric's metric is that of all proposals and probes, that of the source of what it paid.
      expect(row['rubric/coin']).not.toBeNull();
      expect(row['rubric/worth']).not.toBeNull();
      expect(Object.keys(row).filter((name) => name.startsWith('reward/'))).toEqual(['reward/propose', 'reward/solve/answer']);
    }
  });

  it('puts the rewards that it gives next to the rollouts, under their recorded names, the same after any interruption', async () => {
    const rewardsOf = (step: number) => linesOf(rolloutText(path, `step-00000${step}.propose_rewards.jsonl`));
    const mine = { createSource: checkedSource(createSource, 'mine') };
    await run(mine);
    const whole = EVERY_STEP.map(rewardsOf);
    const recorded = linesOf(rolloutText(path, 'step-000002.propose.jsonl')).filter(({ rollout_id: id }) => id !== undefined);
    const places = recorded.map((line) => [line['rollout_id'], line['group_id'], line['rollout_index']]).filter((_, i) => i % 3 !== 2);
    expect(whole[1]!.map((line) => [line['rollout_id'], line['group_id'], line['rollout_index']])).toEqual(places);
    const worth = linesOf(await readFile(join(path, 'source', 'proposals.jsonl'), 'utf8')).map((line) => line['worth']);
    expect(whole.flat().map(({ reward: paid }) => paid)).toEqual(worth);
    expect(whole[1]![0]).toMatchObject({ metrics: { coin: expect.any(Number) as number, worth: whole[1]![0]!['reward'] } });
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    await interrupted(mine);
    expect(EVERY_STEP.map(rewardsOf)).toEqual(whole);
  });

  it('keeps the rows that it gives with their steps, and its notes as events that are shown', async () => {
    const shown: string[] = [];
    await run({
      createSource: checkedSource(createSource, 'mine'),
      observer: { onEvent: ({ kind, step, message }) => void (kind === 'note' && shown.push(`${step} ${message}`)) },
    });
    const rows = linesOf(await readFile(join(path, 'source', 'proposals.jsonl'), 'utf8'));
    expect(rows.map(({ step }) => step)).toEqual([1, 2, 3, 4].flatMap((step) => [step, step, step, step]));
    const [proposal, ...others] = linesOf(rolloutText(path, 'step-000002.propose.jsonl'));
    expect(rows[4]!['proposal']).toBe(proposal!['rollout_id']);
    expect(others.length).toBeGreaterThan(4);
    expect(linesOf(await readFile(join(path, 'source', 'left.jsonl'), 'utf8'))).toHaveLength(8);
    const first = [1, 2, 3, 4].flatMap((step) => [`${step} first: ${String(rows[4 * step - 4]!['worth'])}`, `${step} paid 4`]);
    expect(shown).toEqual(first);
    const events = await eventsOf(path);
    expect(events.filter(({ kind }) => kind === 'note').map(({ step, message }) => `${step} ${message}`)).toEqual(first);
  });

  it('pays again after an interruption in any phase, and ends with the same weights and rows', { tags: 'long' }, async () => {
    const whole = await adapterOf(await run({ createSource }));
    const rows = await rowsOf(path);
    const proposals = await readFile(join(path, 'source', 'proposals.jsonl'), 'utf8');
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    expect(await adapterOf(await interrupted({ createSource }, EVERY_STEP))).toEqual(whole);
    expect(await rowsOf(path)).toEqual(rows);
    expect(await readFile(join(path, 'source', 'proposals.jsonl'), 'utf8')).toBe(proposals);
  });

  it('has its rows once where a lost backend takes the run back to its last checkpoint', async () => {
    await run({ createSource });
    const proposals = await readFile(join(path, 'source', 'proposals.jsonl'), 'utf8');
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    let backends = 0;
    const backend = async () => {
      const isFirst = ++backends === 1;
      let updates = 0;
      return new UnigramBackend((call) => {
        // The last update of step 4: the rows of step 3 are on file, and the checkpoint is of step 2.
        if (call === 'optimStep' && isFirst && ++updates === 8) throw new GradientError('gone', { code: 'lost' });
      });
    };
    await run({ createSource, backend });
    expect(backends).toBe(2);
    expect(await readFile(join(path, 'source', 'proposals.jsonl'), 'utf8')).toBe(proposals);
  });

  it('may have nothing to play in a phase', async () => {
    const nothing: CreateSource = (context) => ({
      ...createSource(context),
      async take(step, signal) {
        const proposed = await context.play({ step, phase: 'propose', rows: [context.environment.train.at(0)] }, signal);
        const solved = await context.play({ step, phase: 'solve', rows: [] }, signal);
        expect(solved.trajectories).toEqual([]);
        return proposed;
      },
    });
    expect(await run({ createSource: nothing })).toMatchObject({ reason: 'finished', step: 4 });
  });
});

describe('a source whose state decides what it plays', () => {
  const createSource: CreateSource = ({ play, environment, isRecorded }) => {
    let taken = 0;
    return {
      async take(step, signal) {
        const rows = [0, 1, 2].map((i) => environment.train.at((3 * taken + i) % environment.train.length));
        const batch = await play({ step, rows }, signal);
        taken++;
        return { ...batch, values: { 'source/taken': taken } };
      },
      needsPolicy: (step) => !isRecorded(step),
      saveState: (directory) => writeFile(join(directory, 'taken'), String(taken)),
      async loadState(directory) {
        taken = Number(await readFile(join(directory, 'taken'), 'utf8').catch(() => '0'));
      },
    };
  };
  const config = { rollouts: { examples_per_step: 3, rollouts_per_example: 4, max_concurrent: 4, max_staleness: 1 } };
  /** While a version is published, the next step is sampled to its end. */
  const session: NonNullable<SmallRunOptions['session']> = (opened) => {
    opened.publisher.before = () => sleep(60);
    return opened;
  };

  it('repeats the step that it was ahead with from the state before, wherever the run was interrupted', { tags: 'long' }, async () => {
    const whole = await adapterOf(await run({ createSource, config, session }));
    const rows = await rowsOf(path);
    expect(rows.map((each) => each['source/taken'])).toEqual([1, 2, 3, 4]);
    for (const at of [1, 2, 3]) {
      path = await newRun(await mkdtemp(join(parent, 'again-')));
      const stop = new AbortController();
      const observer = { onStep: ({ step }: { readonly step: number }) => void (step === at && stop.abort()) };
      expect(await run({ createSource, config, session, observer, signal: stop.signal })).toMatchObject({ reason: 'interrupted', step: at });
      expect(await adapterOf(await run({ createSource, config, session }))).toEqual(whole);
      expect((await rowsOf(path)).map((each) => each['source/taken'])).toEqual([1, 2, 3, 4]);
      expect(await readdir(join(path, 'checkpoints'))).not.toContain('ahead.tmp');
    }
  });
});

describe('a source whose code fails', () => {
  const mine = (changes: Partial<ReturnType<CreateSource>>) =>
    checkedSource(
      ({ play, environment }) => ({
        take: (step, signal) => play({ step, rows: [environment.train.at(0), environment.train.at(1)] }, signal),
        needsPolicy: () => true,
        saveState: async () => {},
        loadState: async () => {},
        ...changes,
      }),
      './mine.ts',
    );
  const corrected = { reason: 'stopped', correct: './mine.ts', resumeFlags: ['--allow-changes'] };

  it('ends the run with the module to correct where nothing catches an error, and keeps the steps before', { timeout: 20_000 }, async () => {
    const stop = new AbortController();
    const fault = moduleFault('An error that nothing caught ended the run: Error: later', './mine.ts');
    const throws = () => stop.abort(new CancelledError('Stopped', { cause: fault }));
    const outcome = await run({ createSource: mine({}), signal: stop.signal, observer: { onStep: ({ step }) => void (step === 2 && throws()) } });
    expect(outcome).toMatchObject({ ...corrected, message: fault.message, step: 2, checkpoint: expect.stringMatching(/step-000002$/) });
    expect((await eventsOf(path)).at(-1)).toMatchObject({ kind: 'stopped', message: fault.message });
    expect(await run({ createSource: mine({}) })).toMatchObject({ reason: 'finished', step: 4 });
  });

  it('ends the run even if it then waits for what never comes', { tags: 'long' }, async () => {
    const stop = new AbortController();
    const fault = moduleFault('An error that nothing caught ended the run: Error: later', './mine.ts');
    const take = () => {
      setImmediate(() => stop.abort(new CancelledError('Stopped', { cause: fault })));
      return new Promise<never>(() => {});
    };
    expect(await run({ createSource: mine({ take }), signal: stop.signal })).toMatchObject({ ...corrected, message: fault.message, step: 0 });
  });

  it.each([
    ['rejects', () => Promise.reject(new Error('no save')), /^saveState of the source \.\/mine\.ts failed: Error: no save/],
    [
      'throws',
      () => {
        throw new TypeError('Do not know how to serialize a BigInt');
      },
      /^saveState of the source \.\/mine\.ts failed: TypeError: Do not know/,
    ],
    ['returns its state', async () => ({ open: NaN }), /^saveState of the source \.\/mine\.ts returned a value and wrote no file/],
    [
      'never ends',
      () => new Promise(() => {}),
      /^saveState of the source \.\/mine\.ts did not end within 0\.05 s: a promise that it awaits may never settle/,
    ],
  ])('ends the run at the first step whose state it cannot save, and that step has no checkpoint: it %s', async (_, saveState, message) => {
    const config = { rollouts: { scoring_timeout_s: 0.05 }, checkpoint: { every: 1 } };
    const outcome = await run({ createSource: mine({ saveState: saveState as never }), config });
    expect(outcome).toMatchObject({ ...corrected, reason: 'stopped', step: 0, message: expect.stringMatching(message) });
    expect(await readdir(join(path, 'checkpoints'))).toEqual([]);
    expect((await eventsOf(path)).filter(({ kind }) => kind === 'alarm')).toEqual([]);
  });

  it('only raises an alarm where the disk is full as it saves its state', async () => {
    let saves = 0;
    const saveState = async () => {
      if (++saves === 2) throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
    };
    expect(await run({ createSource: mine({ saveState }), config: { checkpoint: { every: 1 } } })).toMatchObject({ reason: 'finished', step: 4 });
    expect((await eventsOf(path)).filter(({ kind }) => kind === 'alarm')).toHaveLength(1);
  });

  it('is advised to bring trajectories where it brings none', async () => {
    const config = { guards: { max_skipped_steps: 2 } };
    for (const isPlayed of [false, true]) {
      path = await newRun(await mkdtemp(join(parent, 'empty-')));
      const create: CreateSource = (context) =>
        mine({
          take: async (step, signal) => {
            const played = isPlayed ? await context.play({ step, rows: [context.environment.train.at(0)] }, signal) : null;
            return { trajectories: [], discarded: played?.trajectories ?? [] };
          },
        })(context);
      const outcome = await run({ createSource: create, config });
      expect(outcome).toMatchObject({ reason: 'stopped', resumeFlags: ['--allow-changes'], newRun: null });
      expect(outcome.message).toMatch(/the source returned nothing to train on\. Correct the source: its take returned no trajectories/);
      expect((await eventsOf(path)).filter(({ kind }) => kind === 'step_skipped')).toMatchObject([{ reason: 'empty' }, { reason: 'empty' }]);
    }
  });
});

describe('refilled groups', () => {
  // Of ten rows, those with an even name always have the same reward.
  const environment = () =>
    new CountingEnv({
      rows: 10,
      maxTurns: 1,
      rubric: new Rubric({
        funcs: [reward(({ modelText, row }) => (Number(row.exampleId) % 2 === 0 ? 1 : modelText.length % 2), { name: 'parity' })],
      }),
    });
  const config = { rollouts: { examples_per_step: 3, rollouts_per_example: 4, max_concurrent: 4, max_refills: 3 } };

  it('replace groups of equal rewards by others, up to the bound, and count what was replaced', async () => {
    await run({ environment: environment(), config });
    const [rows, plain] = [await rowsOf(path), await mkdtemp(join(parent, 'plain-'))];
    path = await newRun(plain);
    await run({ environment: environment(), config: { rollouts: { ...config.rollouts, max_refills: 0 } } });
    const before = await rowsOf(path);
    const sum = (of: readonly Record<string, unknown>[], name: string) => of.reduce((total, row) => total + ((row[name] as number) ?? 0), 0);
    expect(sum(before, 'groups_constant')).toBeGreaterThan(3);
    expect(sum(rows, 'groups_constant')).toBeLessThan(sum(before, 'groups_constant') - 2);
    expect(sum(rows, 'groups_refilled')).toBeGreaterThan(2);
    // The batch has as many groups as without, and the reward counts every rollout that was played.
    expect(rows.map((row) => row['groups'])).toEqual([3, 3, 3, 3]);
    expect(sum(rows, 'rollouts')).toBeGreaterThan(sum(before, 'rollouts'));
  });

  it('are the same after an interruption in any phase', async () => {
    const whole = await adapterOf(await run({ environment: environment(), config }));
    const rows = await rowsOf(path);
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    expect(await adapterOf(await interrupted({ environment: environment(), config }))).toEqual(whole);
    expect(await rowsOf(path)).toEqual(rows);
  });
});

describe('rollouts from a file', () => {
  const line = (group: number, index: number, changes: Partial<RolloutExport> = {}): string => {
    const token_ids = [...Buffer.from(`p${'xyz'[index % 3]}${group}`)];
    const rollout: RolloutExport = {
      schema_version: 1,
      rollout_id: `${group}/${index}`,
      group_id: String(group),
      example_id: group,
      reward: index % 2,
      metrics: {},
      stop_condition: 'completed',
      is_truncated: false,
      policy: { model: 'theirs', version: 0 },
      sampling: { temperature: 1 },
      logprobs_mode: 'raw',
      tokenizer_hash: null,
      token_ids,
      loss_mask: [0, 1, 1],
      logprobs: [null, -5.5, -5.5],
      prompt_length: 1,
      segments: [
        { kind: 'prompt', start: 0, end: 1, version: null },
        { kind: 'model', start: 1, end: 3, version: 0 },
      ],
      ...changes,
    };
    return JSON.stringify(rollout);
  };
  const left: string[] = [];
  const LINES = Array.from({ length: 8 }, (_, group) => [0, 1, 2, 3].map((index) => line(group, index))).flat();
  const sourceOf =
    (lines: Iterable<string> | AsyncIterable<string>, { startsOver = true }: { readonly startsOver?: boolean } = {}): CreateSource =>
    ({ store, config: { rollouts, sft } }) =>
      new RolloutFileSource({
        name: 'theirs.jsonl',
        async *lines() {
          yield* lines;
        },
        startsOver,

        stepsBefore: sft.steps ?? 0,
        groupsPerStep: 2,
        rolloutsPerGroup: 4,
        temperature: rollouts.temperature,
        tokenizerHash: 'ours',
        vocabularySize: 256,
        longest: 3,
        onLeftOut: (message) => left.push(message),
        onRole: () => {},
        store,
      });
  const onTurn = () => expect.fail('Expected nothing to be sampled');

  it('keep their role and task, which other scopes compare', async () => {
    const lines = LINES.map((text, i) => JSON.stringify({ ...(JSON.parse(text) as object), ...(i < 8 ? { role: 'solve', task: 'sums' } : {}) }));
    await run({ createSource: sourceOf(lines), onTurn });
    const [first, later] = [1, 2].map((step) => linesOf(rolloutText(path, `step-00000${step}.jsonl`))[0]!);
    expect(first).toMatchObject({ role: 'solve', task: 'sums' });
    expect(Object.keys(later!).filter((name) => name === 'role' || name === 'task')).toEqual([]);
  });

  /** The lines of a rollout: the first branch is that of the others, and each further one is one token after a prompt. */
  const branchLines = (group: number, index: number, count: number, changes: Partial<RolloutExport> = {}) =>
    Array.from({ length: count }, (_, branch) => {
      const own = { branch, parent: branch === 0 ? null : 0, ...changes };
      if (branch === 0) return line(group, index, own);
      const segments = [
        { kind: 'prompt', start: 0, end: 2, version: null },
        { kind: 'model', start: 2, end: 3, version: 0 },
      ];
      const tokens = {
        token_ids: [...Buffer.from(`q${branch}x`)],
        loss_mask: [0, 0, 1] as (0 | 1)[],
        logprobs: [null, null, -5.5],
        prompt_length: 2,
      };
      return line(group, index, { ...own, ...tokens, segments, branch_reward: branch, role: 'helper' });
    });

  it('are one trajectory where a rollout has a line for each of its branches', async () => {
    const lines = Array.from({ length: 8 }, (_, group) =>
      [0, 1, 2, 3].flatMap((index) => (index < 2 ? branchLines(group, index, 3) : [line(group, index)])),
    ).flat();
    await run({ createSource: sourceOf(lines), onTurn });
    const [first, , third] = linesOf(rolloutText(path, 'step-000001.jsonl'));
    expect(first).toMatchObject({
      rollout_id: '0/0',
      num_turns: 3,
      branches: [
        { length: 3, prompt_length: 1, parent: null },
        { length: 3, prompt_length: 2, parent: 0, role: 'helper', reward: 1 },
        { length: 3, prompt_length: 2, parent: 0, role: 'helper', reward: 2 },
      ],
    });
    expect(third).not.toHaveProperty('branches');
    expect((await rowsOf(path))[0]).toMatchObject({ rollouts: 8, branches_mean: 2, rollouts_branched: 0.5, groups: 2 });
  });

  it.each([
    ['a branch without the one before it', [0, 2], 'theirs.jsonl:2 is branch 2 of the rollout 0/0, but the line before it is its branch 0'],
    ['a branch before the first', [1], 'theirs.jsonl:1 is branch 1 of the rollout 0/0, but no line of the rollout comes before it'],
    ['a branch twice', [0, 1, 1], 'but the line before it is its branch 1'],
  ])('are refused with %s', async (_, order, problem) => {
    const lines = branchLines(0, 0, 3);
    const outcome = run({ createSource: sourceOf([...order.map((branch) => lines[branch]!), ...LINES.slice(1)]), onTurn });
    await expect(outcome).rejects.toThrow(problem);
    await expect(outcome).rejects.toThrow('Keep the lines of a rollout together, branch 0 first');
  });

  it('are whole with their last branch, so that a stream need not go on first, and refused without it', async () => {
    const [group, ...others] = [0, 1, 2, 3].map((index) => branchLines(0, index, 2, { branch_count: 2 }));
    const second = LINES.slice(4, 8);
    const silent = Promise.withResolvers<never>();
    async function* stream() {
      yield* second;
      yield* [group!, ...others].flat();
      await silent.promise;
    }
    await run({ createSource: sourceOf(stream(), { startsOver: false }), onTurn, config: { steps: 1 } });
    expect((await rowsOf(path))[0]).toMatchObject({ rollouts: 8, branches_mean: 1.5 });
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    const cut = [group![0]!, ...others.flat(), ...second];
    await expect(run({ createSource: sourceOf(cut), onTurn, config: { steps: 1 } })).rejects.toThrow(
      'theirs.jsonl:1 begins the rollout 0/0, which has 2 branches, but the file has only 1 of them here. Export it again',
    );
  });

  it('are refused where the branches of a rollout have different rewards of the rollout', async () => {
    const lines = [branchLines(0, 0, 2)[0]!, branchLines(0, 0, 2, { reward: 7 })[1]!];
    await expect(run({ createSource: sourceOf([...lines, ...LINES.slice(1)]), onTurn })).rejects.toThrow(
      'but its reward is 7, and that of branch 0 0',
    );
  });

  it('are left out and counted where they are longer than the window, also with a whole group', async () => {
    left.length = 0;
    const long = (text: string) => {
      const rollout = JSON.parse(text) as RolloutExport;
      const segments = [...rollout.segments, { kind: 'observation', start: 3, end: 4, version: null } as const];
      return JSON.stringify({
        ...rollout,
        segments,
        token_ids: [...rollout.token_ids, 99],
        loss_mask: [0, 1, 1, 0],
        logprobs: [...rollout.logprobs, null],
      });
    };
    const lines = LINES.map((text, i) => (i === 1 || (i >= 4 && i < 8) ? long(text) : text));
    expect(await run({ createSource: sourceOf([...lines, ...LINES.slice(0, 4).map((text) => text.replaceAll('"0', '"9'))]), onTurn })).toMatchObject({
      reason: 'finished',
      step: 4,
    });
    const rows = await rowsOf(path);
    expect(rows.map((each) => [each['rollouts'], each['groups'], each['source/left_out']])).toEqual([
      [7, 2, 5],
      [8, 2, undefined],
      [8, 2, undefined],
      [8, 2, undefined],
    ]);
    expect(left).toEqual(["theirs.jsonl:2 has 4 tokens: rollouts longer than the model's window of 3 are left out, and counted as source/left_out"]);
  });

  it('are left out and counted where they were never played: a reward of 0 for a prompt without room for a token is none', async () => {
    left.length = 0;
    const unplayed = (text: string) => {
      const rollout = JSON.parse(text) as RolloutExport;
      const segments = [{ kind: 'prompt', start: 0, end: 1, version: null }] as const;
      const nothing = { segments, token_ids: rollout.token_ids.slice(0, 1), prompt_length: 1, loss_mask: [0], logprobs: [null] };
      return JSON.stringify({ ...rollout, ...nothing, reward: 0, stop_condition: 'prompt_too_long', is_truncated: true });
    };
    const lines = LINES.map((text, i) => (i === 1 || i === 2 ? unplayed(text) : text));
    expect(await run({ createSource: sourceOf(lines), onTurn })).toMatchObject({ reason: 'finished' });
    const [first] = await rowsOf(path);
    expect([first!['rollouts'], first!['source/left_out']]).toEqual([6, 2]);
    expect(left).toEqual([
      expect.stringMatching(/^theirs\.jsonl:2 was never played \(prompt_too_long.*are left out, and counted as source\/left_out$/),
    ]);
  });

  it('are trained on in their order, group by group, and nothing is sampled', async () => {
    expect(await run({ createSource: sourceOf(LINES), onTurn })).toMatchObject({ reason: 'finished', step: 4, version: 4 });
    const rows = await rowsOf(path);
    expect(rows.map((each) => [each['rollouts'], each['groups'], each['sampling_attempts']])).toEqual(Array.from({ length: 4 }, () => [8, 2, 0]));
  });

  it('are read again after an interruption where they are a file, and continued where they are a stream', async () => {
    const whole = await adapterOf(await run({ createSource: sourceOf(LINES) }));
    path = await newRun(await mkdtemp(join(parent, 'file-')));
    expect(await adapterOf(await interrupted({ createSource: sourceOf(LINES) }))).toEqual(whole);
    path = await newRun(await mkdtemp(join(parent, 'stream-')));
    const stop = new AbortController();
    const observer = { onStep: ({ step }: { readonly step: number }) => void (step === 2 && stop.abort()) };
    expect(await run({ createSource: sourceOf(LINES.slice(0, 16), { startsOver: false }), signal: stop.signal, observer })).toMatchObject({
      reason: 'interrupted',
      step: 2,
    });
    expect(await adapterOf(await run({ createSource: sourceOf(LINES.slice(16), { startsOver: false }) }))).toEqual(whole);
  });

  it('stop the run with what is missing where they end too early, and it goes on with more', async () => {
    const outcome = await run({ createSource: sourceOf(LINES.slice(0, 20)) });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 2, resumable: true });
    expect(outcome.message).toMatch(/theirs\.jsonl ended before step 3 had its groups of rollouts \(2; it has 5 in all\)/);
    expect(await run({ createSource: sourceOf(LINES) })).toMatchObject({ reason: 'finished', step: 4 });
  });

  it('are read from the first one after supervised steps', { tags: 'long' }, async () => {
    const shown = [0, 1, 2].map((i) =>
      trajectory(`shown ${i}/0`, { reward: null, logProbs: null, ids: Int32Array.of(1, 60 + i), promptLength: 1, targets: Int32Array.of(1) }),
    );
    const config = { sft: { data: 'shown.jsonl', steps: 2, batch_size: 3 } };
    const options = { createSource: sourceOf(LINES), demonstrations: { training: shown, validation: [] }, config };
    const whole = await run(options);
    expect(whole).toMatchObject({ reason: 'finished', step: 6 });
    const played = (await rowsOf(path)).filter((each) => each['rollouts'] !== undefined);
    expect(played.map((each) => [each['step'], each['rollouts']])).toEqual([3, 4, 5, 6].map((step) => [step, 8]));
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    expect(await adapterOf(await interrupted(options, EVERY_STEP))).toEqual(await adapterOf(whole));
  });

  it('are repeated to the same weights where a step has a row twice, and those of the second time are a group of their own', async () => {
    const twice = [0, 1, 2, 3].map((index) => line(0, index, { reward: Number(index > 2), token_ids: [...Buffer.from(`p${'abcd'[index]}0`)] }));
    const createSource = sourceOf([...LINES.slice(0, 4), ...twice, ...LINES.slice(4)]);
    const whole = await adapterOf(await run({ createSource }));
    const rows = await rowsOf(path);
    expect(rows.map((each) => [each['rollouts'], each['groups']])).toEqual(Array.from({ length: 4 }, () => [8, 2]));
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    // The first step is on file, and no checkpoint has it.
    let updates = 0;
    const failing = new UnigramBackend((call) => {
      if (call === 'saveState' || (call === 'optimStep' && ++updates > 2)) throw new Error('broken');
    });
    await expect(run({ createSource, backend: async () => failing })).rejects.toThrow('broken');
    expect(await adapterOf(await run({ createSource }))).toEqual(whole);
    expect(await rowsOf(path)).toEqual(rows);
  });

  it('that a stream gave before a full disk are trained on once, and the run goes on with the next', async () => {
    const whole = await adapterOf(await run({ createSource: sourceOf(LINES) }));
    path = await newRun(await mkdtemp(join(parent, 'again-')));
    const lines = LINES.values();
    const given = function* () {
      for (const text of lines) {
        yield text;
        if (text === LINES[11]) throw new Error('no space left');
      }
    };
    await expect(run({ createSource: sourceOf(given(), { startsOver: false }) })).rejects.toThrow('no space left');
    expect(await adapterOf(await run({ createSource: sourceOf(LINES.slice(12), { startsOver: false }) }))).toEqual(whole);
  });

  it('let a run be interrupted while a stream is silent', async () => {
    const silent = async function* () {
      yield* LINES.slice(0, 8);
      await new Promise(() => {});
    };
    const stop = new AbortController();
    const observer = { onPhase: (phase: string, step: number) => void (step === 2 && phase === 'rollouts' && setTimeout(() => stop.abort(), 100)) };
    const outcome = await run({ createSource: sourceOf(silent(), { startsOver: false }), signal: stop.signal, observer });
    expect(outcome).toMatchObject({ reason: 'interrupted', step: 1 });
    expect(await rowsOf(path)).toHaveLength(1);
  });

  it.each([
    ['{"token_ids": []}', /theirs\.jsonl:1 is not a rollout in the form of vf-export/],
    [line(0, 0, { loss_mask: [0, 1] }), /loss_mask has 2 items for 3 tokens/],
    [line(0, 0, { tokenizer_hash: 'other' }), /token ids of another tokenizer/],
    [line(0, 0, { token_ids: [1, 2, 256] }), /theirs\.jsonl:1 has the token id 256, but those of the trained model are 0 to 255/],
    [line(0, 0, { sampling: { temperature: 0.7 } }), /sampled at temperature 0\.7, but rollouts\.temperature is 1/],
  ])('are refused in one line: %s', async (text, message) => {
    await expect(run({ createSource: sourceOf([text]) })).rejects.toThrow(message);
  });
});
