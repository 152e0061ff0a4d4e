/**
 * Times loss, gradient and all metrics of 65,536 tokens (GRPO with clip and k3 penalty) against TRL's own loss function with backward and torch's
 * autograd of the bare formula. All use the same batch and one thread, and alternate: 64 ragged sequences, 15 % of the tokens masked, token mean.
 *
 *     node --conditions=source scripts/bench/policy-loss.ts [--rounds 9] [--runs 50] [--json]
 *
 * Ours is always float64. First checks that both gradients agree. Without `--json` it also times the other losses, without a peer.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { Random } from '../../src/core/random.ts';
import { type LossBatch, policyLoss, type PolicyLossConfig } from '../../src/trainer/losses/policy-loss.ts';
import { broadcastOverTokens, countTokens } from '../../src/trainer/losses/token-mask.ts';
import { type Measurement, measurement, median, report } from './measurement.ts';
import { peerVenv } from './peer-venv.ts';

const TOKENS = 65_536;
const SEQUENCES = 64;
const WARM_UP_RUNS = 200;
const PEER = join(import.meta.dirname, 'peers/policy-loss');
const REQUIREMENTS = readFileSync(join(PEER, 'requirements.txt'), 'utf8').trim().split('\n');

const GRPO: PolicyLossConfig = {
  ratio: 'token',
  objective: { kind: 'clip', clipLow: 0.2, clipHigh: 0.28, dualClip: null },
  logRatioClamp: null,
  correction: null,
  aggregation: { kind: 'token_mean' },
  kl: { estimator: 'k3', coefficient: 0.001, clamp: null, against: 'reference' },
};
const OTHERS: Readonly<Record<string, PolicyLossConfig>> = {
  'GRPO without a penalty': { ...GRPO, kl: null },
  'GRPO with dual clip, clamps and sampler correction': {
    ...GRPO,
    objective: { kind: 'clip', clipLow: 0.2, clipHigh: 0.28, dualClip: 3 },
    logRatioClamp: 20,
    correction: { level: 'token', cap: 2 },
    kl: { ...GRPO.kl!, clamp: [-10, 10] },
  },
  GSPO: { ...GRPO, ratio: 'sequence', kl: null },
  CISPO: { ...GRPO, objective: { kind: 'cispo', ratioMin: 0, ratioMax: 5 }, kl: null },
};

type PeerFigure = 'trl_float64' | 'trl_float32' | 'autograd_float64' | 'autograd_float32';
/** Median CPU milliseconds of a round. */
type PeerRound = Readonly<Record<PeerFigure, number>>;

const PEERS: Readonly<Record<PeerFigure, { readonly against: string; readonly bar: number | null }>> = {
  trl_float64: { against: 'TRL 1.16.0, float64', bar: 1 },
  trl_float32: { against: 'TRL 1.16.0, float32', bar: null },
  autograd_float64: { against: 'torch autograd, bare formula, float64', bar: null },
  autograd_float32: { against: 'torch autograd, bare formula, float32', bar: null },
};

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '9' }, runs: { type: 'string', default: '50' }, json: { type: 'boolean' } },
});
const [rounds, runs] = [Number(values.rounds), Number(values.runs)];
const batch = raggedBatch(Random.fromSeed(5));
const counts = countTokens(batch);
medianMs(GRPO, WARM_UP_RUNS);
report(await besidePeer());
if (!values.json) {
  for (const [name, config] of Object.entries(OTHERS)) {
    medianMs(config, WARM_UP_RUNS);
    process.stdout.write(`${name}: ${medianMs(config, runs).toFixed(2)} CPU ms\n`);
  }
}

/** CPU time of the process, including the garbage collector's threads, because other work distorts the wall clock. */
function medianMs(config: PolicyLossConfig, times: number): number {
  const measured = Array.from({ length: times }, () => {
    const before = process.cpuUsage();
    policyLoss(config, batch, counts);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1e3;
  });
  return median(measured);
}

async function besidePeer(): Promise<Measurement[]> {
  const python = join(peerVenv('trl', REQUIREMENTS), 'python');
  const directory = mkdtempSync(join(tmpdir(), 'vf-bench-'));
  const paths = [join(directory, 'batch.bin'), join(directory, 'gradient.bin')] as const;
  writeFileSync(paths[0], peerBatch());
  const peer = spawn(python, [join(PEER, 'trl_loss.py'), ...paths], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: peer.stdout })[Symbol.asyncIterator]();
  const closed = once(peer, 'close');
  try {
    peer.stdin.write(`${SEQUENCES} ${TOKENS}\n`);
    const askPeer = async (): Promise<PeerRound> => {
      peer.stdin.write(`${runs}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error('The peer ended without an answer; see its output above.');
      return JSON.parse(value) as PeerRound;
    };
    await askPeer(); // warms it up
    checkSameGradient(readFileSync(paths[1]));
    const pairs: { ours: number; peer: PeerRound }[] = [];
    for (let round = 0; round < rounds; round++) pairs.push({ peer: await askPeer(), ours: medianMs(GRPO, runs) });
    return Object.entries(PEERS).map(([figure, about]) =>
      measurement(
        { what: 'GRPO loss, gradient, metrics of 65,536 tokens', unit: 'CPU ms', ...about },
        pairs.map((pair) => ({ ours: pair.ours, peer: pair.peer[figure as PeerFigure] })),
      ),
    );
  } finally {
    peer.stdin.end();
    await closed;
    rmSync(directory, { recursive: true });
  }
}

/** The batch in the format of peers/policy-loss/trl_loss.py. */
function peerBatch(): Uint8Array {
  const { offsets, mask, logProbs, oldLogProbs, advantages, referenceLogProbs } = batch;
  const columns = [offsets, mask, logProbs, oldLogProbs, advantages, referenceLogProbs!];
  return Buffer.concat(columns.map((column) => new Uint8Array(Float64Array.from(column).buffer)));
}

function checkSameGradient(bytes: Buffer): void {
  const { gradient } = policyLoss(GRPO, batch, counts);
  const largest = gradient.reduce((most, g, t) => Math.max(most, Math.abs(g - bytes.readDoubleLE(t * 8))), 0);
  if (!(largest < 1e-15)) throw new Error(`Our gradient differs from TRL's by ${largest}; the limit is 1e-15.`);
}

function raggedBatch(random: Random): LossBatch {
  const shares = Array.from({ length: SEQUENCES }, () => random.float() + 0.5);
  const total = shares.reduce((sum, share) => sum + share, 0);
  let before = 0;
  const ends = shares.map((share) => Math.floor(((before += share) / total) * TOKENS));
  const offsets = Int32Array.from([0, ...ends.slice(0, -1), TOKENS]);
  // A sum of four uniform numbers is close enough to a normal distribution.
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
