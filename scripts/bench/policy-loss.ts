/**
 * Loss, gradient and all metrics of 65,536 tokens in float64: 64 ragged sequences, 15 % of the tokens masked, k3 penalty, token mean.
 *
 *     node --conditions=source scripts/bench/policy-loss.ts [--runs 200]
 *
 * Prints the median and the least CPU-bound wall time of the runs after as many for warming up.
 */
import { parseArgs } from 'node:util';
import { Random } from '../../src/core/random.ts';
import { type LossBatch, policyLoss, type PolicyLossConfig } from '../../src/trainer/algorithm/policy-loss.ts';
import { broadcastOverTokens, countTokens } from '../../src/trainer/algorithm/token-mask.ts';
import { median } from './measurement.ts';

const TOKENS = 65_536;
const SEQUENCES = 64;

const GRPO: PolicyLossConfig = {
  ratio: 'token',
  objective: { kind: 'clip', clipLow: 0.2, clipHigh: 0.28, dualClip: null },
  logRatioClamp: null,
  correction: null,
  aggregation: { kind: 'token_mean' },
  kl: { estimator: 'k3', coefficient: 0.001, clamp: null, against: 'reference' },
};
const CONFIGS: Readonly<Record<string, PolicyLossConfig>> = {
  'GRPO, clip and k3 penalty': GRPO,
  'the same without a penalty': { ...GRPO, kl: null },
  'the same with dual clip, clamps and sampler correction': {
    ...GRPO,
    objective: { kind: 'clip', clipLow: 0.2, clipHigh: 0.28, dualClip: 3 },
    logRatioClamp: 20,
    correction: { level: 'token', cap: 2 },
    kl: { ...GRPO.kl!, clamp: [-10, 10] },
  },
  GSPO: { ...GRPO, ratio: 'sequence', kl: null },
  CISPO: { ...GRPO, objective: { kind: 'cispo', ratioMin: 0, ratioMax: 5 }, kl: null },
};

const { values } = parseArgs({ options: { runs: { type: 'string', default: '200' } } });
const runs = Number(values.runs);
const batch = raggedBatch(Random.fromSeed(5));
const counts = countTokens(batch);
for (const [name, config] of Object.entries(CONFIGS)) {
  const times: number[] = [];
  for (let run = 0; run < 2 * runs; run++) {
    const before = performance.now();
    policyLoss(config, batch, counts);
    times.push(performance.now() - before);
  }
  const measured = times.slice(runs);
  process.stdout.write(`${name}: ${median(measured).toFixed(3)} ms (least ${Math.min(...measured).toFixed(3)})\n`);
}

function raggedBatch(random: Random): LossBatch {
  const shares = Array.from({ length: SEQUENCES }, () => random.float() + 0.5);
  const total = shares.reduce((sum, share) => sum + share, 0);
  let before = 0;
  const ends = shares.map((share) => Math.floor(((before += share) / total) * TOKENS));
  const offsets = Int32Array.from([0, ...ends.slice(0, -1), TOKENS]);
  // The sum of four uniform numbers: near enough to a normal one.
  const noise = () => (random.float() + random.float() + random.float() + random.float() - 2) * Math.sqrt(3);
  const logProbs = Float64Array.from({ length: TOKENS }, () => -random.float());
  const near = (deviation: number) => logProbs.map((logProb) => logProb + deviation * noise());
  return {
    offsets,
    mask: Uint8Array.from({ length: TOKENS }, () => (random.float() < 0.15 ? 0 : 1)),
    logProbs,
    oldLogProbs: near(0.1),
    advantages: broadcastOverTokens(Array.from({ length: SEQUENCES }, noise), offsets),
    referenceLogProbs: near(0.2),
    samplerLogProbs: near(0.1),
  };
}
