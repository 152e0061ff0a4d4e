/**
 * Compares the two algorithms of self-play on the same batch: TR-RPG (each role and task by sequence, the loss `rpg` with β per role) against TRR++ (each role
 * and task by token, the clipped ratio). Credit, loss, gradient and all metrics of 65,536 tokens in 384 rollouts of three roles and three tasks; both need the
 * sampler's log-probs and no reference policy, so that forward and backward passes of a model are the same for both.
 *
 *     node --conditions=vf-search-source scripts/bench/self-play-losses.ts [--rounds 9] [--runs 20] [--json]
 *
 * CPU time, and the memory that one step allocates after a collection.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Random } from '../../src/core/random.ts';
import { resolveTrainingConfig } from '../../src/trainer/config/resolve-config.ts';
import type { TrainingSequence } from '../../src/trainer/credit.ts';
import { creditBatch } from '../../src/trainer/credit/credit-batch.ts';
import { builtInCredit } from '../../src/trainer/credit/registry.ts';
import { evaluateTerms, termCounts } from '../../src/trainer/loop/evaluate-terms.ts';
import { lossTerms } from '../../src/trainer/losses/loss-terms.ts';
import type { Trajectory } from '../../src/trainer/trajectory.ts';
import { measurement, median, report } from './measurement.ts';

const TOKENS = 65_536;
const ROLLOUTS = 384;
const ROLES = ['propose', 'solve', 'critique'];
const TASKS = ['code_i', 'code_o', 'code_f'];
const BETAS = { propose: 0.01, solve: 0.05, critique: 0.1 };
const COMMON = { old_log_probs: 'sampler', constant_groups: 'keep' };
const TR_RPG = {
  ...COMMON,
  advantage: { scope: 'role_task', weighting: 'sequence' },
  loss: { use: 'rpg', args: { beta: BETAS, log_ratio_clamp: 2.3, aggregation: 'role_token_mean' } },
};
const TRR = { ...COMMON, advantage: { scope: 'role_task', weighting: 'token' }, loss: { clip_low: 0.2, clip_high: 0.2 } };

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '9' }, runs: { type: 'string', default: '20' }, json: { type: 'boolean' } },
});
const [rounds, runs] = [Number(values.rounds), Number(values.runs)];
const random = Random.fromSeed(7);
const trajectories = Array.from({ length: ROLLOUTS }, (_, i) => rollout(i));
const logProbs = Float64Array.from({ length: TOKENS }, () => -random.float());
const [rpg, trr] = [stepOf(TR_RPG), stepOf(TRR)];
for (const step of [rpg, trr]) await cpuMs(step, 5 * runs);
const pairs: { ours: number; peer: number }[] = [];
for (let round = 0; round < rounds; round++) pairs.push({ ours: await cpuMs(rpg, runs), peer: await cpuMs(trr, runs) });
const about = { what: 'self-play: credit, loss, gradient, metrics of 65,536 tokens, TR-RPG', against: 'TRR++', bar: null };
report([
  measurement({ ...about, unit: 'CPU ms' }, pairs),
  measurement({ ...about, unit: 'MB allocated' }, [{ ours: await megabytes(rpg), peer: await megabytes(trr) }]),
]);

/** One step of an algorithm without a model. */
function stepOf(algorithm: object): () => Promise<number> {
  const table = { environment: { id: 'search-r1' }, model: { path: 'nano-base' }, policy: { embedded: {} }, algorithm };
  const { config } = resolveTrainingConfig([{ source: 'bench', table }]);
  const terms = lossTerms(config, { algorithm: config.algorithm, responseTokens: TOKENS });
  const credit = builtInCredit(config);
  return async () => {
    // Nothing here asks for log-probs of a model.
    const { groups } = await creditBatch(credit, trajectories, { config, step: 1, pass: async () => [] });
    const sequences = groups.flat().map((each): TrainingSequence => ({ ...each, oldLogProbs: each.logProbs, referenceLogProbs: null }));
    const ends = sequences.reduce<number[]>((sums, { targets }) => [...sums, sums.at(-1)! + targets.length], [0]);
    const counts = terms.map((term) => termCounts(term, sequences));
    return evaluateTerms(terms, counts, sequences, { offsets: Int32Array.from(ends), logProbs, entropy: null }).values.loss;
  };
}

/** Three rollouts of each row, one of each role. */
function rollout(i: number): Trajectory {
  const length = Math.floor(((i + 1) * TOKENS) / ROLLOUTS) - Math.floor((i * TOKENS) / ROLLOUTS);
  return {
    rolloutId: `${Math.floor(i / 3)}/${i % 3}`,
    groupId: `${Math.floor(i / 3)}`,
    index: i % 3,
    role: ROLES[i % 3]!,
    task: TASKS[Math.floor(i / 3) % 3]!,
    reward: Math.round(random.float() * 8) / 8,
    metrics: {},
    error: null,
    stop: 'completed',
    isTruncated: false,
    isCut: false,
    turns: 1,
    policy: { model: 'policy', version: 0 },
    usage: { inputTokens: 1, outputTokens: length, cachedTokens: null },
    ids: new Int32Array(length + 1),
    promptLength: 1,
    targets: Int32Array.from({ length }, (_, t) => t + 1),
    logProbs: Float64Array.from({ length }, () => -random.float()),
    segments: [],
  };
}

async function cpuMs(step: () => Promise<number>, times: number): Promise<number> {
  const found: number[] = [];
  for (let i = 0; i < times; i++) {
    const before = process.cpuUsage();
    if (!Number.isFinite(await step())) throw new Error('The loss is not finite.');
    const { user, system } = process.cpuUsage(before);
    found.push((user + system) / 1e3);
  }
  return median(found);
}

/** The median of several measurements. */
async function megabytes(step: () => Promise<number>): Promise<number> {
  const found: number[] = [];
  for (let i = 0; i < runs; i++) {
    // The second waits until the buffers that the first freed are gone.
    for (let pass = 0; pass < 2; pass++) collectGarbage();
    await sleep(20);
    const before = process.memoryUsage();
    await step();
    const after = process.memoryUsage();
    found.push((after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers) / 2 ** 20);
  }
  return median(found);
}
