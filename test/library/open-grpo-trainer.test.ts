import { hash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GrpoEnv, MockSearchEngine, toTrajectory } from 'vf-search/environments/grpo-000';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError, ResultsError } from '../../src/core/errors.ts';
import { type GrpoTrainer, openGrpoTrainer } from '../../src/library/open-grpo-trainer.ts';
import { train } from '../../src/library/train.ts';
import type { CreditFactory } from '../../src/trainer/credit.ts';
import type { Trajectory } from '../../src/trainer/trajectory.ts';
import { rowsOfStep } from '../../src/trainer/sources/rows-of-step.ts';

const SETTINGS = {
  rollouts: { examplesPerStep: 1, rolloutsPerExample: 4, maxTokens: 24 },
  // The document's algorithm: several updates of a batch, K3 against the policy that sampled, weighted by beta.
  algorithm: {
    epochs: 2,
    constantGroups: 'keep',
    kl: { coefficient: 0.1, against: 'old', estimator: 'k3' },
    advantage: { std: 'population', epsilon: 1e-8 },
  },
  evaluation: { every: 0 },
  checkpoint: { every: 1 },
  policy: { embedded: { threads: 1 } },
} as const;
const OPTIONS = { environment: 'grpo-000', preset: 'laptop', settings: SETTINGS };

const weights = (adapter: string) => hash('sha256', readFileSync(join(adapter, 'adapter_model.safetensors')), 'hex');

describe('openGrpoTrainer', { timeout: 120_000 }, () => {
  let folder: string;
  let trainer: GrpoTrainer;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'vf-grpo-trainer-'));
    trainer = await openGrpoTrainer(OPTIONS);
  });
  afterAll(async () => {
    await trainer[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  it('takes the steps of train, bit for bit, in one call or in its parts, and continues from a checkpoint', async () => {
    const { environment, config } = trainer;
    const rows = (step: number) => rowsOfStep(environment.train, 1, config.seed, step);
    const first = await trainer.trainStep(rows(1));
    await trainer.saveCheckpoint(join(folder, 'first'));
    const sampled = await trainer.generate(rows(2));
    const second = await trainer.updatePolicy(sampled);
    await trainer.saveCheckpoint(join(folder, 'second'));
    const whole = await train({ ...OPTIONS, steps: 2, output: join(folder, 'whole') });
    expect(whole.metrics.map(({ values }) => [values['loss'], values['kl'], values['reward_mean']])).toEqual(
      [first, second].map(({ loss, klDiv, avgReward }) => [loss, klDiv, avgReward]),
    );
    expect(weights(join(folder, 'second/adapter'))).toBe(weights(whole.adapter!));
    expect(first).toMatchObject({ beta: config.algorithm.kl.coefficient, unchanged: null, trajectories: { length: 4 } });
    expect(first.avgTokens).toBe(first.metrics['tokens_per_rollout']);
    expect(first.searchTrajectories).toBe(first.metrics['rubric/searched']);
    // The weights and the optimiser of then, and so the same second step.
    await trainer.loadCheckpoint(join(folder, 'first'));
    expect(trainer.step).toBe(1);
    await trainer.updatePolicy(sampled);
    await trainer.saveCheckpoint(join(folder, 'again'));
    expect(weights(join(folder, 'again/adapter'))).toBe(weights(join(folder, 'second/adapter')));
    expect(trainer.step).toBe(2);
  });

  it('computes advantages and the KL as the document says, and the log-probs of now', async () => {
    const [a, b, c] = trainer.computeAdvantages([1, 2, 3]);
    const deviation = Math.sqrt(2 / 3) + 1e-8;
    expect([a, b, c]).toEqual([-1 / deviation, 0, 1 / deviation]);
    expect([...trainer.computeAdvantages([2.5])]).toEqual([0]);
    expect([...trainer.computeAdvantages([1, 1])]).toEqual([0, 0]);
    const ratios = [0, -0.5];
    expect(trainer.klDivergence([-1, -2], [-1, -1.5])).toBeCloseTo(ratios.reduce((sum, log) => sum + Math.exp(log) - log - 1, 0) / 2, 12);
    expect(() => trainer.klDivergence([-1], [-1, -2])).toThrow(ConfigError);
    const trajectories = await trainer.generate([trainer.environment.train.at(0)], { rolloutsPerRow: 2, maxTokens: 5 });
    expect(trajectories).toHaveLength(2);
    const now = await trainer.recomputeLogProbs(trajectories);
    for (const [i, { targets, logProbs }] of trajectories.entries()) {
      expect(now[i]).toHaveLength(targets.length);
      for (const [t, logProb] of now[i]!.entries()) expect(logProb).toBeCloseTo(logProbs![t]!, 3);
    }
  });

  it('takes a credit as a function, with its settings, checks and state', async () => {
    const settings = { ...SETTINGS, algorithm: { advantage: { args: { rate: 0.5 } } } };
    const credit: CreditFactory = ({ rate }) => {
      let mean = 0;
      return {
        assign({ groups }) {
          const before = mean;
          for (const { reward } of groups.flat()) mean += Number(rate) * (reward - mean);
          const advantages = groups.map((group) => group.map(({ turns }, i) => turns.map(() => i - before)));
          return { advantages, values: { 'credit/before': before } };
        },
        saveState: (directory) => writeFile(join(directory, 'mean'), String(mean)),
        loadState: async (directory) => void (mean = Number(readFileSync(join(directory, 'mean'), 'utf8'))),
      };
    };
    await using own = await openGrpoTrainer({ ...OPTIONS, settings, credit });
    expect(own.config.algorithm.advantage.use).toBe('environment');
    const sampled = (await own.generate([own.environment.train.at(0)])).map((one, i) => ({ ...one, reward: i }));
    expect((await own.updatePolicy(sampled)).metrics['credit/before']).toBe(0);
    await own.saveCheckpoint(join(folder, 'own'));
    expect(readdirSync(join(folder, 'own/credit'))).toEqual(['mean']);
    const second = await own.updatePolicy(sampled);
    expect(second.metrics['credit/before']).toBeGreaterThan(0);
    await own.loadCheckpoint(join(folder, 'own'));
    expect((await own.updatePolicy(sampled)).metrics['credit/before']).toBe(second.metrics['credit/before']);
  });

  it.each([
    [
      { credit: () => ({ assign: () => ({ advantages: [] }) }) },
      /^assign of the credit of the option credit returned a wrong value in step 0: .*2 groups, got 0/,
    ],
    [{ credit: async () => null }, /^createCredit of of the option credit must not be async/],
    [{ credit: './credit.ts' }, /credit/],
    [
      { credit: () => ({ assign: () => ({ advantages: [] }) }), settings: { ...SETTINGS, algorithm: { advantage: { use: 'turns' } } } },
      /^openGrpoTrainer got the option credit and settings\.algorithm\.advantage\.use = "turns"\. Leave one of them out\.$/,
    ],
  ])('refuses %j before anything is opened', async (wrong, message) => {
    await expect(openGrpoTrainer({ ...OPTIONS, ...(wrong as object) })).rejects.toThrow(message);
  });

  it('updates by advantages that the caller computed; samples of two calls in a step differ; without trajectories there is no step', async () => {
    const row = trainer.environment.train.at(3);
    const one = await trainer.generate([row]);
    const other = await trainer.generate([row]);
    expect(other.map(({ ids }) => [...ids])).not.toEqual(one.map(({ ids }) => [...ids]));
    const before = trainer.step;
    expect(await trainer.updatePolicy([])).toMatchObject({ loss: null, avgReward: null, unchanged: 'no rollouts were given, so no step was taken' });
    expect(trainer.step).toBe(before);
    expect(await trainer.updatePolicy(one, [1, -1, 1, -1])).toMatchObject({ unchanged: null });
    expect(trainer.step).toBe(before + 1);
    await expect(trainer.updatePolicy(one, [1])).rejects.toThrow(/^updatePolicy needs an advantage for each of the 4 trajectories, got 1\.$/);
  });

  it('takes rollouts of two branches with one advantage each, and tells the log-probs of each branch in its own context', async () => {
    const sampled = await trainer.generate([trainer.environment.train.at(4)]);
    const joined = [0, 2].map((i): Trajectory => {
      const [one, other] = [sampled[i]!, sampled[i + 1]!];
      const start = one.ids.length;
      return {
        ...one,
        rolloutId: `joined/${i}`,
        groupId: 'joined',
        index: i,
        reward: i / 2,
        ids: Int32Array.from([...one.ids, ...other.ids]),
        targets: Int32Array.from([...one.targets, ...other.targets.map((at) => at + start)]),
        logProbs: Float64Array.from([...one.logProbs!, ...other.logProbs!]),
        turns: one.turns + other.turns,
        segments: [...one.segments, ...other.segments],
        branches: [
          { start: 0, end: start, promptLength: one.promptLength, parent: null },
          { start, end: start + other.ids.length, promptLength: other.promptLength, parent: null },
        ],
      };
    });
    const now = await trainer.recomputeLogProbs(joined);
    for (const [i, { logProbs }] of joined.entries()) for (const [t, logProb] of now[i]!.entries()) expect(logProb).toBeCloseTo(logProbs![t]!, 3);
    expect(await trainer.updatePolicy(joined, [1, -1])).toMatchObject({ unchanged: null, metrics: { branches_mean: 2, groups: 1 } });
    const cut = joined.map((each) => ({ ...each, branches: each.branches!.slice(0, 1) }));
    await expect(trainer.updatePolicy(cut)).rejects.toThrow(/the branches end at \d+ of \d+ ids/);
  });

  it('refuses trajectories that nothing can have sampled, and a rollout that is given twice, as vf-train does of files and sources', async () => {
    const given = await trainer.generate([trainer.environment.train.at(2)]);
    const [one, ...others] = given as [Trajectory, ...Trajectory[]];
    const logged = (change: (logProb: number) => number) => ({ ...one, logProbs: one.logProbs!.map(change) });
    const step = trainer.step;
    for (const [wrong, message] of [
      [
        logged(() => NaN),
        /^updatePolicy cannot train on these trajectories: logProbs\[0\] of \S+\/0 is NaN; a log-prob is a finite number of at most 0\.$/,
      ],
      [logged(() => -Infinity), /logProbs\[0\] of \S+\/0 is -Infinity/],
      [logged((logProb) => logProb + 100), /logProbs\[0\] of \S+\/0 is \d+/],
      [{ ...one, ids: one.ids.map(() => 1e6) }, /ids\[0\] of \S+\/0 is 1000000, but the token ids of the trained model are 0 to/],
      [{ ...one, targets: one.targets.slice(1) }, /trajectories\[0\] is not a trajectory as generate returns it: logProbs must have one value/],
      [{ ...one, reward: NaN }, /the reward of \S+\/0 must be a finite number/],
      [{ ...one, turnRewards: [5, 5, 5, 5, 5, 5, 5, 5, 5] }, /turnRewards of \S+\/0 must be a list with one item for each/],
      [others[0], /it has the trajectory \S+\/1 twice\.$/],
      [{ ...others[0], rolloutId: 'copy' }, /\S+\/1 is a copy of an earlier one; give it once, and a larger advantage\.$/],
      [null, /trajectories\[0\] is not a trajectory as generate returns it: got null/],
    ] as const)
      for (const advantages of [[], [[1, -1, 1, -1]]])
        await expect(trainer.updatePolicy([wrong as Trajectory, ...others], ...advantages)).rejects.toThrow(message);
    one.logProbs![0] = 3;
    await expect(trainer.updatePolicy(given)).rejects.toThrow(/logProbs\[0\] of \S+\/0 is 3/);
    expect(trainer.step).toBe(step);
  });

  it('refuses what it cannot play as asked, and runs operations that are not awaited one after the other', async () => {
    const { train: rows } = trainer.environment;
    const row = rows.at(5);
    for (const [options, message] of [
      [{ rolloutsPerRow: 0 }, /^rolloutsPerRow of generate must be at least 1, got 0\.$/],
      [{ maxTokens: Number.NaN }, /^generate takes a whole number from 0 up as maxTokens, got NaN/],
      [{ rolloutPerRow: 2 }, /^generate has no option rolloutPerRow \(did you mean rolloutsPerRow\?\)/],
    ] as const)
      await expect(trainer.generate([row], options as never)).rejects.toThrow(message);
    await expect(trainer.trainStep([row, row])).rejects.toThrow(/^trainStep got the row \S+ twice, and both would give the same samples\./);
    await expect(trainer.trainStep([undefined as never])).rejects.toThrow(/^trainStep needs rows, .* item 0 of its list is not a row\.$/);
    expect(() => trainer.klDivergence([-1, Number.NaN], [-1, -1])).toThrow(/oldLogProbs\[1\] is NaN/);
    const step = trainer.step;
    const [sampled, , again] = await Promise.all([trainer.generate([row]), trainer.updatePolicy([]), trainer.generate([row])]);
    await Promise.all([trainer.updatePolicy(sampled, Float64Array.of(1, -1, 1, -1)), trainer.updatePolicy(again, [1, -1, 1, -1])]);
    expect(trainer.step).toBe(step + 2);
    await expect(trainer.updatePolicy(again, [1, 1, 1, Number.NaN])).rejects.toThrow(
      /^The advantage number 3 of updatePolicy, of .*, must be finite, got NaN\.$/,
    );
  });

  it('takes an environment with an engine and fewer rows than a step of a whole run, and shows its trajectories in the names of the document', async () => {
    const rows = [{ id: 'a', question: 'Who is the mayor of Trafam?', golden_answers: ['Purorka'] }];
    const engine = new MockSearchEngine({ mayor: '"Trafam"\nThe mayor of Trafam is Purorka.' });
    const environment = new GrpoEnv({ rows, trainRows: rows, engine, prompt: 'search-r1', config: { max_tokens: 24 } });
    await using own = await openGrpoTrainer({ ...OPTIONS, environment, settings: { ...SETTINGS, rollouts: { examplesPerStep: 8 } } });
    const [one] = await own.generate([environment.train.at(0)], { rolloutsPerRow: 1 });
    const view = toTrajectory(one!, { query: rows[0]!.question, tokenText: (id) => `${id}`, advantage: 0.5 });
    expect(view).toMatchObject({ query: rows[0]!.question, generated_text: one!.segments.map(({ text }) => text).join(''), reward: one!.reward });
    expect(view.token_steps.map(({ log_prob }) => log_prob)).toEqual([...one!.logProbs!]);
    expect(view.token_steps.length).toBeLessThanOrEqual(24);
  });

  it('refuses a folder without a whole checkpoint, and what only a whole run can do', async () => {
    await expect(trainer.loadCheckpoint(join(folder, 'nowhere'))).rejects.toBeInstanceOf(ResultsError);
    await expect(trainer.saveCheckpoint(join(folder, 'first'))).rejects.toThrow(/first holds a checkpoint\. Save into another folder\.$/);
    await expect(openGrpoTrainer({})).rejects.toThrow(/^openGrpoTrainer needs an environment/);
    await expect(openGrpoTrainer({ ...OPTIONS, resume: true } as never)).rejects.toThrow(/resume/);
    const rows = join(folder, 'rows.jsonl');
    writeFileSync(rows, '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n');
    await expect(openGrpoTrainer({ ...OPTIONS, settings: { ...SETTINGS, sft: { data: rows } } })).rejects.toThrow(
      /^A trainer of single steps takes no demonstrations/,
    );
  });
});
