import { describe, expect, it } from 'vitest';
import { CancelledError, ConfigError, TrainingError } from '../../../src/core/errors.ts';
import { checkedSource } from '../../../src/trainer/sources/checked-source.ts';
import type { PlayedRoles } from '../../../src/trainer/token-loss.ts';
import { type Trajectory, unpaid, withReward } from '../../../src/trainer/trajectory.ts';
import { branched } from '../branched-trajectory.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';
import type { CreateSource, PhasePlan, SourceContext, TrajectoryBatch, TrajectorySource } from '../../../src/trainer/trajectory-source.ts';

const ROWS = ['a', 'b'].map((exampleId) => ({ exampleId, prompt: [{ role: 'user' as const, content: '?' }] }));
const TRAJECTORY = trajectory('a/0', { reward: 1 });
const COPY = { ...TRAJECTORY };
const STATELESS = { needsPolicy: () => true, saveState: async () => {}, loadState: async () => {} };

interface RunRoles {
  readonly config?: SourceContext['config'];
  readonly roles?: PlayedRoles;
}

/** The source, opened, and what it asked of `play`. */
function opened(create: (context: SourceContext) => Partial<TrajectorySource>, { config = someConfig({}), roles }: RunRoles = {}) {
  const plans: PhasePlan[] = [];
  const play = async (plan: PhasePlan) => {
    plans.push(plan);
    return { trajectories: [TRAJECTORY] } as unknown as TrajectoryBatch;
  };
  const source = checkedSource(create as CreateSource, './mine.ts', { roles: roles ?? null })({
    play,
    config,
    store: { pay: async () => {} },
  } as unknown as SourceContext);
  return { source, plans, take: (step = 1, signal = new AbortController().signal) => source.take(step, signal) };
}

const taking = (take: (context: SourceContext, step: number, signal: AbortSignal) => unknown, run: RunRoles = {}) =>
  opened((context) => ({ ...STATELESS, take: async (step, signal) => take(context, step, signal) as Promise<TrajectoryBatch> }), run);
const playing = (plan: object, run: RunRoles = {}) => taking(({ play }, step, signal) => play({ step, rows: ROWS, ...plan }, signal), run);
const returning = (batch: unknown) => taking(() => batch);

describe('branches of a source of its own', () => {
  const made = branched('b/0', [{ sampled: [-1] }, { sampled: [-1, -2], parent: 0 }], { reward: 1, policy: { model: 'mine', version: 0 } });
  const withBranch = (change: object) =>
    returning({ trajectories: [{ ...made, branches: made.branches!.with(1, { ...made.branches![1]!, ...change }) }] }).take();

  it('are trained on as they are', async () => {
    expect((await returning({ trajectories: [made] }).take()).trajectories).toEqual([made]);
  });

  it.each([
    ['a gap', { start: 5 }, 'branches[1] must start at 4, where the branch before it ends, got 5'],
    ['an end beyond the ids', { end: 12 }, 'the branches end at 12 of 9 ids'],
    ['a target in the prompt', { promptLength: 3 }, 'branches[1] has the target 6 in its prompt, which ends at 7'],
    ['a parent after it', { parent: 2 }, 'branches[1] must have the index of an earlier branch as its parent, or null, got 2'],
    ['a reward that is not finite', { reward: NaN }, 'branches[1] must have a finite number as its reward, or none, got NaN'],
    ['a role that is no name', { role: 3 }, 'branches[1] must have a name as its role, got 3'],
  ])('are refused with %s', async (_, change, problem) => {
    await expect(withBranch(change)).rejects.toThrow(problem);
  });

  it('cannot be changed in a rollout that play returned', async () => {
    const played = taking(async ({ play }, step, signal) => {
      const { trajectories } = await play({ step, rows: ROWS }, signal);
      return { trajectories: [{ ...trajectories[0]!, branches: [{ start: 0, end: 4, promptLength: 2, parent: null }] }] };
    });
    await expect(played.take()).rejects.toThrow('branches of a/0 differ from what play returned');
  });
});

describe('checkedSource', () => {
  it('passes on a plan and a batch that are right, in every step', async () => {
    const { take, plans } = playing({ phase: 'look-2', role: 'eye', rolloutsPerExample: 2 });
    expect(await take(1)).toEqual({ trajectories: [TRAJECTORY], played: [TRAJECTORY], notes: [] });
    await take(2);
    await take(2);
    expect(plans.map(({ step }) => step)).toEqual([1, 2, 2]);
    const values = { 'source/open': 3, 'source/closed': null };
    expect(await returning({ trajectories: [], attempts: 2, values }).take()).toMatchObject({ values });
  });

  it('refuses a source without the methods of one, before the first step', () => {
    expect(() => opened(() => ({ take: async () => ({ trajectories: [] }), needsPolicy: () => true }))).toThrow(
      /^createSource of \.\/mine\.ts must return .*; saveState, loadState are missing/,
    );
    expect(() => opened(() => null as never)).toThrow(ConfigError);
    expect(() => opened((async () => STATELESS) as never)).toThrow('createSource of ./mine.ts must not be async');
  });

  it('refuses a source that does not say whether it needs the policy', () => {
    const needing = (needsPolicy: () => unknown) => () =>
      opened(() => ({ ...STATELESS, needsPolicy: needsPolicy as () => boolean, take: async () => ({ trajectories: [] }) })).source.needsPolicy(2);
    expect(needing(() => undefined)).toThrow('needsPolicy(2) of the source ./mine.ts must return true or false, got undefined');
    const fault = () => {
      throw new RangeError('no step 2');
    };
    expect(needing(fault)).toThrow(/^needsPolicy\(2\) of the source \.\/mine\.ts failed: RangeError: no step 2 \(at/);
  });

  it('names the module and the line of an error in its own code', async () => {
    const { take } = taking(() => {
      throw new RangeError('no rows left');
    });
    await expect(take(3)).rejects.toThrow(TrainingError);
    await expect(take(3)).rejects.toThrow(
      /^take\(3\) of the source \.\/mine\.ts failed: RangeError: no rows left \(at .*checked-source\.test\.ts:\d+:\d+\)$/,
    );
    const { source } = opened(() => ({
      ...STATELESS,
      take: async () => ({ trajectories: [] }),
      saveState: () => Promise.reject(new Error('no disk')),
    }));
    await expect(source.saveState('x')).rejects.toThrow(/^saveState of the source \.\/mine\.ts failed: Error: no disk/);
  });

  it('names the module where a trajectory is paid with what is not a number', async () => {
    const { take } = taking(() => Promise.resolve({ trajectories: [withReward(TRAJECTORY, NaN)] }));
    await expect(take(1)).rejects.toThrow(TrainingError);
    await expect(take(1)).rejects.toThrow(
      /^take\(1\) of the source \.\/mine\.ts failed: The reward of .* must be a finite number, got NaN\. Where nobody knows it/,
    );
  });

  it('passes on errors of the package, and says that a stopped run was stopped', async () => {
    await expect(
      taking(() => {
        throw new TrainingError('too many failed');
      }).take(),
    ).rejects.toThrow(/^too many failed$/);
    const stopped = taking(() => {
      throw new DOMException('aborted', 'AbortError');
    });
    await expect(stopped.take(1, AbortSignal.abort())).rejects.toThrow(CancelledError);
  });

  it.each([
    [{ phase: 'look_again' }, 'the phase "look_again" is part of a file name; use letters, digits and dashes'],
    [{ phase: 'asked' }, 'the phase "asked" is part of a file name'],
    [{ phase: '../x' }, 'the phase "../x" is part of a file name'],
    [{ rolloutsPerExmple: 2 }, 'it has no option rolloutsPerExmple (did you mean rolloutsPerExample?)'],
    [{ role: '' }, 'the role must be a name, got ""'],
    [{ isPaidLater: 'yes' }, 'isPaidLater must be true or false, got "yes"'],
    [{ rolloutsPerExample: 0 }, 'rolloutsPerExample must be a whole number of at least 1, got 0'],
    [{ step: 0 }, 'step must be the one that take was called for, got 0'],
    [{ step: 2 }, 'step must be the one that take was called for (1), got 2'],
    [{ rows: ROWS[0] }, 'rows must be a list of rows'],
    [{ rows: [ROWS[0], { question: '?' }] }, 'rows[1] must be a row, such as environment.train.at(0): exampleId must be'],
    [{ rows: ['a'] }, 'rows[0] must be a row, such as environment.train.at(0): it must be an object with exampleId and prompt, got "a"'],
    [
      { rows: [{ ...ROWS[0], prompt: 'Who?' }] },
      'rows[0] must be a row, such as environment.train.at(0): prompt must be a list of messages, got "Who?"',
    ],
    [{ rows: [{ ...ROWS[0], answer: 5 }] }, 'rows[0] must be a row, such as environment.train.at(0): answer must be a string, got 5'],
    [{ rows: [ROWS[0], ROWS[0]] }, 'The rows 0 and 1 both have the id "a"; rolloutsPerExample says how often'],
  ])('refuses the plan %j in one line', async (plan, message) => {
    const { take, plans } = playing(plan);
    await expect(take()).rejects.toThrow(TrainingError);
    await expect(take()).rejects.toThrow(`The source ./mine.ts called play wrongly: ${message}`);
    expect(plans).toEqual([]);
  });

  it('refuses a role that the losses or the module do not know before its phase is sampled', async () => {
    const config = someConfig({ algorithm: { old_log_probs: 'sampler', loss: { use: 'rpg', args: { beta: { solve: 1 } } } } });
    const wrong = playing({ phase: 'grade', role: 'judge' }, { config });
    await expect(wrong.take()).rejects.toThrow('algorithm.loss.args.beta has no value for the role "judge", only for solve');
    const undeclared = playing({ phase: 'grade', role: 'judge' }, { roles: { solve: {} } });
    await expect(undeclared.take()).rejects.toThrow('The source ./mine.ts played the role "judge", but its playedRoles has only solve; add it there');
    expect([...wrong.plans, ...undeclared.plans]).toEqual([]);
    const right = playing({ role: 'solve' }, { config });
    await right.take();
    expect(right.plans).toHaveLength(1);
  });

  it('refuses a phase that is played twice in a step, which would overwrite its rollouts', async () => {
    const { take } = taking(async ({ play }, step, signal) => {
      await play({ step, phase: 'look', rows: ROWS }, signal);
      return play({ step, phase: 'look', rows: ROWS.slice(1) }, signal);
    });
    await expect(take(4)).rejects.toThrow('The source ./mine.ts played the phase "look" twice in step 4');
  });

  describe('of rollouts that play did not bring', () => {
    type Own = (given: Trajectory) => object;
    const own = (change: Own) => {
      const create = () => ({
        ...STATELESS,
        take: async () => {
          const given = trajectory('own/0', { reward: 1 });
          return { trajectories: [{ ...given, ...change(given) }] };
        },
      });
      const context = { config: someConfig({}) } as unknown as SourceContext;
      return checkedSource(create, './mine.ts', { vocabularySize: 300 })(context).take(1, new AbortController().signal);
    };

    it('takes those that the trained model can have sampled', async () => {
      expect((await own(() => ({}))).trajectories).toHaveLength(1);
      expect((await own(() => ({ turnTokens: [1, 1], turnRewards: [0.5, null] }))).trajectories).toHaveLength(1);
    });

    it.each<[string, Own, RegExp]>([
      [
        'a token id beyond the vocabulary',
        ({ ids }) => ({ ids: ids.with(0, 300) }),
        /ids\[0\] of own\/0 is 300, but the token ids of the trained model are 0 to 299/,
      ],
      ['a negative token id', ({ ids }) => ({ ids: ids.with(1, -1) }), /ids\[1\] of own\/0 is -1/],
      [
        'a log-prob above 0',
        ({ logProbs }) => ({ logProbs: logProbs!.with(0, 0.5) }),
        /logProbs\[0\] of own\/0 is 0\.5; a log-prob is a finite number of at most 0/,
      ],
      ['a log-prob of NaN', ({ logProbs }) => ({ logProbs: logProbs!.with(0, NaN) }), /logProbs\[0\] of own\/0 is NaN/],
      ['a prompt beyond its first target', ({ ids }) => ({ promptLength: ids.length }), /promptLength of own\/0 is \d+/],
      [
        'a version that is no number',
        ({ policy }) => ({ policy: { ...policy, version: '3' } }),
        /a version of own\/0 is "3"; it must be a whole number/,
      ],
      ['a turn reward of NaN', () => ({ turnRewards: [NaN] }), /turnRewards\[0\] of own\/0 is NaN; a reward of a turn is a finite number, or null/],
      ['a turn reward as text', () => ({ turnRewards: ['1'] }), /turnRewards\[0\] of own\/0 is 1; a reward/],
      [
        'more turn rewards than turns',
        () => ({ turnRewards: [1, 2] }),
        /turnRewards of own\/0 must be a list with one item for each of its 1 turns, got \[1,2\]/,
      ],
      ['turn rewards that are no list', () => ({ turnRewards: 1 }), /turnRewards of own\/0 must be a list/],
      ['a turn with half a token', () => ({ turnTokens: [0.5, 1.5] }), /turnTokens of own\/0 must be a list of whole numbers/],
      ['no segments', () => ({ segments: undefined }), /segments of own\/0 must be a list of \{ kind, text \}, got undefined/],
      [
        'a segment without a text',
        () => ({ segments: [{ kind: 'model' }] }),
        /segments\[0\] of own\/0 must be \{ kind, text \}.*got \{"kind":"model"\}/,
      ],
      ['a segment of another kind', () => ({ segments: [{ kind: 'user', text: 'a' }] }), /segments\[0\] of own\/0 .* a kind of model, prefill/],
    ])('refuses %s', async (_, change, message) => {
      await expect(own(change)).rejects.toThrow(message);
    });
  });

  describe('of rollouts that play returned', () => {
    const ROLLOUT = () => trajectory('b/0', { reward: 1, isTruncated: false });
    const changing = (change: (played: Trajectory) => Trajectory) => {
      const play = async () => ({ trajectories: [ROLLOUT()] });
      const create: CreateSource = ({ play: sample }) => ({
        ...STATELESS,
        take: async (step, signal) => ({ trajectories: (await sample({ step, rows: ROWS }, signal)).trajectories.map(change) }),
      });
      const store = { pay: async () => {} };
      return checkedSource(
        create,
        './mine.ts',
      )({ play, store, config: someConfig({}) } as unknown as SourceContext).take(1, new AbortController().signal);
    };
    type Changeable = { -readonly [key in keyof Trajectory]: Trajectory[key] };
    const inPlace = (change: (played: Changeable) => void) => (played: Trajectory) => {
      change(played);
      return played;
    };

    it('takes them as they are, renamed, copied, and with a reward that withReward gave', async () => {
      for (const change of [
        (played: Trajectory) => played,
        (played: Trajectory) => ({ ...played, groupId: 'c', rolloutId: 'c/0', role: 'look', task: 'x' }),
        (played: Trajectory) => structuredClone(played),
        (played: Trajectory) => withReward(played, 0.25, { solved: 2 }),
        (played: Trajectory) => ({ ...withReward(played, 0.25, { solved: 2 }), groupId: 'c' }),
      ])
        expect((await changing(change)).trajectories).toEqual([change(ROLLOUT())]);
    });

    it.each<[string, (played: Trajectory) => Trajectory, string]>([
      [
        'reward',
        inPlace((played) => (played.reward = 0)),
        'the reward of b/0 is 0, but play returned 1. To change it, return withReward(trajectory, reward)',
      ],
      ['copied reward', (played) => ({ ...played, reward: 100 }), 'the reward of b/0 is 100, but play returned 1'],
      ['paid reward', (played) => ({ ...withReward(played, 0.5), reward: 2 }), 'the reward of b/0 is 2, but withReward gave it 0.5'],
      ['metric', inPlace((played) => (played.metrics = { em: 9 })), 'the metrics of b/0 differ from what play returned'],
      ['log-probs', (played) => ({ ...played, logProbs: played.logProbs!.map(() => -20) }), 'logProbs of b/0 differ from what play returned'],
      ['log-probs in place', inPlace(({ logProbs }) => logProbs!.fill(-20)), 'logProbs of b/0 differ from what play returned'],
      ['log-probs left out', (played) => ({ ...played, logProbs: null }), 'logProbs of b/0 differ from what play returned'],
      ['ids', (played) => ({ ...played, ids: played.ids.map(() => 5) }), 'ids of b/0 differ from what play returned'],
      [
        'everything',
        (played) => ({ ...structuredClone(played), ids: played.ids.map(() => 5) }),
        'ids of b/0 differ from what play returned. A source may rename a rollout',
      ],
      ['weights', (played) => ({ ...played, weights: Float64Array.of(1, 1) }), 'weights of b/0 differ from what play returned'],
      ['truncation', (played) => ({ ...played, isTruncated: true }), 'isTruncated of b/0 differs from what play returned'],
      ['texts', (played) => ({ ...played, segments: [{ kind: 'model', text: 'forged' }] }), 'segments of b/0 differ from what play returned'],
      [
        'texts in place',
        inPlace(({ segments }) => Object.assign(segments[0]!, { text: 'forged' })),
        'segments of b/0 differ from what play returned',
      ],
      ['stop', (played) => ({ ...played, stop: 'forged' }), 'stop of b/0 differs from what play returned'],
      ['turns', (played) => ({ ...played, turns: 9 }), 'turns of b/0 differ from what play returned'],
      ['usage', (played) => ({ ...played, usage: { ...played.usage, outputTokens: 0 } }), 'usage of b/0 differs from what play returned'],
      [
        'error',
        (played) => ({ ...played, error: { type: 'x', message: 'x', retryable: false, source: 'x' } as never }),
        'error of b/0 differs from what play returned',
      ],
      ['version', (played) => ({ ...played, policy: { model: 'x', version: 4 } }), 'policy.version of b/0 differs from what play returned'],
    ])('names the rollout that the source changed: %s', async (_, change, message) => {
      await expect(changing(change)).rejects.toThrow(`take(1) of the source ./mine.ts returned a wrong batch: ${message}`);
    });
  });

  describe('of what a step played', () => {
    const NAMES = ['a/0', 'a/1', 'b/0', 'b/1'];
    type Take = (played: readonly Trajectory[]) => TrajectoryBatch;
    /** A source that plays four rollouts, with the rewards 0 to 3, in each step, and what the store was given. */
    const accounted = (...takes: readonly Take[]) => {
      const paid: unknown[] = [];
      let seen: readonly Trajectory[] = [];
      const context = {
        play: async () => ({ trajectories: NAMES.map((name, reward) => trajectory(name, { reward })) }),
        store: {
          pay: async (given: readonly Trajectory[], ...place: unknown[]) =>
            void paid.push([given.map(({ rolloutId, reward }) => [rolloutId, reward]), ...place]),
        },
        config: someConfig({}),
      } as unknown as SourceContext;
      const source = checkedSource(
        ({ play }) => ({
          ...STATELESS,
          take: async (step, signal) => {
            const { trajectories } = await play({ step, phase: 'solve', rows: ROWS }, signal);
            seen = [...seen, ...trajectories];
            return takes[step - 1]!(seen);
          },
        }),
        './mine.ts',
      )(context);
      return { paid, take: (step: number) => source.take(step, new AbortController().signal) };
    };
    const rewards = ({ played }: TrajectoryBatch) => played!.map(({ reward }) => reward);

    it('counts each rollout once, whether it is returned, copied or left out, and says how many are in neither list', async () => {
      const all = await accounted((played) => ({ trajectories: played.slice(0, 3), discarded: played.slice(3), notes: ['mine'] })).take(1);
      expect([rewards(all), all.notes]).toEqual([[0, 1, 2, 3], ['mine']]);
      const copied = await accounted((played) => ({ trajectories: [...played, ...played.map((each) => ({ ...each, groupId: 'again' }))] })).take(1);
      expect([rewards(copied), copied.notes, copied.trajectories.length]).toEqual([[0, 1, 2, 3], [], 8]);
      const left = await accounted((played) => ({ trajectories: [structuredClone(played[1]!)] })).take(1);
      expect(rewards(left)).toEqual([1, 0, 2, 3]);
      expect(left.notes).toEqual([
        'The source returned 3 of the 4 rollouts that it played neither among trajectories nor among discarded. They are not trained on; the figures of the step count them.',
      ]);
    });

    it('records the rewards of withReward in any phase, and takes back those of an earlier attempt', async () => {
      const { paid, take } = accounted(([one, ...others]) => ({
        trajectories: [{ ...one!, groupId: 'copy' }, { ...withReward(one!, 9), rolloutId: 'renamed' }, ...others],
      }));
      expect(rewards(await take(1))).toEqual([9, 1, 2, 3]);
      const none = accounted((played) => ({ trajectories: played }));
      await none.take(1);
      expect([paid, none.paid]).toEqual([[[[['a/0', 9]], 1, 'solve']], [[[], 1, 'solve']]]);
    });

    it('refuses a reward for a rollout of an earlier step, which no file would hold', async () => {
      const paying = (reward: number) => (seen: readonly Trajectory[]) => ({
        trajectories: [withReward(seen[0]!, reward)],
        discarded: seen.slice(1),
      });
      const again = accounted(paying(9), paying(9), paying(8));
      await again.take(1);
      await again.take(2);
      await expect(again.take(3)).rejects.toThrow(
        'a/0 was played in step 1, and withReward gave it 9 there. Give a rollout its reward in the step that plays it',
      );
      expect(again.paid).toEqual([
        [[['a/0', 9]], 1, 'solve'],
        [[], 2, 'solve'],
      ]);
      const late = accounted((seen) => ({ trajectories: seen }), paying(9));
      await late.take(1);
      await expect(late.take(2)).rejects.toThrow('a/0 was played in step 1, and had no reward of withReward there.');
    });
  });

  it.each([
    [undefined, 'it must be { trajectories }'],
    [{}, 'trajectories must be a list of trajectories'],
    [{ trajectories: [], discarded: {} }, 'discarded must be a list of trajectories'],
    [{ trajectories: [{ reward: 1 }] }, 'trajectories[0] is not a trajectory as play returns it'],
    [{ trajectories: [{ ...TRAJECTORY, groupId: undefined }] }, 'not a trajectory as play returns it: groupId must be a string, got undefined'],
    [{ trajectories: [TRAJECTORY, COPY, COPY] }, 'it has the trajectory a/0 twice'],
    [{ trajectories: [TRAJECTORY], discarded: [TRAJECTORY] }, 'it has the trajectory a/0 twice'],
    [
      { trajectories: [{ ...TRAJECTORY, targets: Int32Array.of(3) }] },
      'trajectories[0] is not a trajectory as play returns it: logProbs must have one value for each of its 1 targets, got 2',
    ],
    [
      { trajectories: [{ ...TRAJECTORY, targets: Int32Array.of(0, 3) }] },
      'trajectories[0] is not a trajectory as play returns it: targets must be ascending positions from 1 to 3, the last of its ids; targets[0] is 0',
    ],
    [{ trajectories: [{ ...TRAJECTORY, targets: Int32Array.of(3, 4) }] }, 'targets[1] is 4'],
    [{ trajectories: [{ ...TRAJECTORY, turnTokens: [1, 2] }] }, 'turnTokens must sum to its 2 targets, got 3'],
    [{ trajectories: [{ ...TRAJECTORY, targets: Int32Array.of(3, 2) }] }, 'targets[1] is 2'],
    [{ trajectories: [{ ...TRAJECTORY, reward: '1' }] }, 'the reward of a/0 must be a finite number, or null for a failed rollout; got "1"'],
    [{ trajectories: [{ ...TRAJECTORY, reward: NaN }] }, 'the reward of a/0 must be a finite number'],
    [
      { trajectories: [unpaid(TRAJECTORY)] },
      'a/0 has no reward yet; give it one with withReward(trajectory, reward), or return it among discarded instead',
    ],
    [{ trajectories: [COPY], discarded: [unpaid(TRAJECTORY)] }, 'it has a/0 among trajectories and again among discarded'],
    [{ trajectories: [], notes: ['a', 1] }, 'notes must be a list of strings'],
    [{ trajectories: [], notes: 'a' }, 'notes must be a list of strings'],
    [{ trajectories: [], records: [] }, 'records must be an object of lists of rows'],
    [{ trajectories: [], records: { '../metrics': [] } }, 'the name "../metrics" in records is that of a file; use letters, digits and dashes'],
    [{ trajectories: [], records: { programs: {} } }, 'records.programs must be a list of rows'],
    [{ trajectories: [], records: { programs: [{}, 'x'] } }, 'records.programs[1] must be an object without a key "step"'],
    [{ trajectories: [], records: { programs: [{ step: 1 }] } }, 'records.programs[0] must be an object without a key "step"'],
    [{ trajectories: [], attempts: 'two' }, 'attempts must be a whole number, got "two"'],
    [{ trajectories: [{ ...TRAJECTORY, reward: null }] }, 'the reward of a/0 is null, although the rollout did not fail'],
    [{ trajectories: [], values: { open: 1 } }, 'the value "open" must be called "source/open"'],
    [{ trajectories: [], values: { reward_mean: 99 } }, 'the value "reward_mean" must be called "source/reward_mean"'],
    [{ trajectories: [], values: { groups_trained: 5 } }, 'the value "groups_trained" must be called "source/groups_trained"'],
    [
      { trajectories: [], values: { 'source/open': Infinity } },
      'the value "source/open" must be a finite number, or null if it was not measured; got Infinity',
    ],
    [
      { trajectories: [], values: { 'source/open': '1' } },
      'the value "source/open" must be a finite number, or null if it was not measured; got "1"',
    ],
  ])('refuses the batch %j in one line', async (batch, message) => {
    const refused = returning(batch).take(2);
    await expect(refused).rejects.toThrow(/^take\(2\) of the source \.\/mine\.ts returned a wrong batch: /);
    await expect(refused).rejects.toThrow(message);
  });
});
