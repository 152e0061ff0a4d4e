/**
 * Times loss, gradient and all metrics of 65,536 tokens (GRPO with clip and k3 penalty) against TRL's own loss function with backward and torch's
 * autograd of the bare formula. All use the same batch and one thread, and alternate: 64 ragged sequences, 15 % of the tokens masked, token mean. Ours goes
 * through the registry and evaluateTerms, as a training step does, from sequences that hold trained tokens alone.
 *
 *     node --conditions=vf-search-source scripts/bench/policy-loss.ts [--rounds 9] [--runs 50] [--json]
 *
 * Ours is always float64. First checks that both gradients agree. Without `--json` it also times three losses
 * in one step, and the other losses, without a peer.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { Random } from '../../src/core/random.ts';
import type { TrainingSequence } from '../../src/trainer/credit.ts';
import { evaluateTerms, termCounts } from '../../src/trainer/loop/evaluate-terms.ts';
import { lossTerms } from '../../src/trainer/losses/loss-terms.ts';
import type { LossTerm } from '../../src/trainer/token-loss.ts';
import { broadcastOverTokens } from '../../src/trainer/losses/token-counts.ts';
import { resolveTrainingConfig } from '../../src/trainer/config/resolve-config.ts';
import { type Measurement, measurement, median, report } from './measurement.ts';
import { peerVenv } from './peer-venv.ts';

const TOKENS = 65_536;
const SEQUENCES = 64;
const WARM_UP_RUNS = 200;
const PEER = join(import.meta.dirname, 'peers/policy-loss');
const REQUIREMENTS = readFileSync(join(PEER, 'requirements.txt'), 'utf8').trim().split('\n');

/** `[algorithm]` of the peers' loss: no bound of the log-ratio, no clamp of the estimate. */
const GRPO = {
  old_log_probs: 'trainer',
  loss: { clip_low: 0.2, clip_high: 0.28, log_ratio_clamp: 'none' },
  kl: { coefficient: 0.001, estimator: 'k3', clamp: 'none' },
};
const PLAIN = { ...GRPO, kl: { coefficient: 0 } };
const OTHERS: Readonly<Record<string, readonly LossTerm[]>> = {
  'GRPO, nll and rpg in one step': terms(GRPO, { imitation: { use: 'nll', weight: 0.1 }, regularised: { use: 'rpg', args: { beta: 0.1 } } }),
  'GRPO without a penalty': terms(PLAIN),
  'GRPO with dual clip, clamps and sampler correction': terms({
    ...GRPO,
    loss: { clip_low: 0.2, clip_high: 0.28, dual_clip: 3 },
    correction: { level: 'token' },
    kl: { ...GRPO.kl, clamp: 10 },
  }),
  GSPO: terms({ ...PLAIN, loss: { ratio: 'sequence' } }),
  CISPO: terms({ ...PLAIN, loss: { objective: 'cispo' } }),
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
const { sequences, forwarded, positions } = trained(batch);
const grpo = terms(GRPO);
medianMs(grpo, WARM_UP_RUNS);
report(await besidePeer());
if (!values.json) {
  for (const [name, losses] of Object.entries(OTHERS)) {
    medianMs(losses, WARM_UP_RUNS);
    process.stdout.write(`${name}: ${medianMs(losses, runs).toFixed(2)} CPU ms\n`);
  }
}

/** The losses of a configuration, as a run makes them. */
function terms(algorithm: object, losses: object = {}): readonly LossTerm[] {
  const table = { environment: { id: 'search-r1' }, model: { path: 'nano-base' }, policy: { embedded: {} }, algorithm, losses };
  const { config } = resolveTrainingConfig([{ source: 'bench', table }]);
  return lossTerms(config, { algorithm: config.algorithm, responseTokens: TOKENS });
}

function evaluate(losses: readonly LossTerm[]) {
  const counts = losses.map((term) => termCounts(term, sequences));
  return evaluateTerms(losses, counts, sequences, forwarded);
}

/** CPU time of the process, including the garbage collector's threads, because other work distorts the wall clock. */
function medianMs(losses: readonly LossTerm[], times: number): number {
  const measured = Array.from({ length: times }, () => {
    const before = process.cpuUsage();
    evaluate(losses);
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
    for (let round = 0; round < rounds; round++) pairs.push({ peer: await askPeer(), ours: medianMs(grpo, runs) });
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
  const columns = [offsets, mask, logProbs, oldLogProbs, advantages, referenceLogProbs];
  return Buffer.concat(columns.map((column) => new Uint8Array(Float64Array.from(column).buffer)));
}

function checkSameGradient(bytes: Buffer): void {
  const { gradient } = evaluate(grpo);
  const ours = new Float64Array(TOKENS);
  for (const [k, t] of positions.entries()) ours[t] = gradient[k]!;
  const largest = ours.reduce((most, g, t) => Math.max(most, Math.abs(g - bytes.readDoubleLE(t * 8))), 0);
  if (!(largest < 1e-15)) throw new Error(`Our gradient differs from TRL's by ${largest}; the limit is 1e-15.`);
}

/** Whole sequences with a mask, as the peers have them. [N] each. */
interface MaskedBatch {
  readonly offsets: Int32Array;
  readonly mask: Uint8Array;
  readonly logProbs: Float64Array;
  readonly oldLogProbs: Float64Array;
  readonly advantages: Float64Array;
  readonly referenceLogProbs: Float64Array;
  readonly samplerLogProbs: Float64Array;
}

/** The same in the form of a step: the trained tokens of each sequence, and the results of their forward pass. */
function trained({ offsets, mask, logProbs, ...columns }: MaskedBatch) {
  const own = (column: Float64Array, i: number) => column.slice(offsets[i], offsets[i + 1]).filter((_, k) => mask[offsets[i]! + k] === 1);
  const made = Array.from({ length: SEQUENCES }, (_, i): TrainingSequence => {
    const advantages = own(columns.advantages, i);
    const targets = Int32Array.from(advantages.keys());
    const trajectory = { rolloutId: `${i}`, role: 'policy' } as TrainingSequence['trajectory'];
    const logs = {
      logProbs: own(columns.samplerLogProbs, i),
      oldLogProbs: own(columns.oldLogProbs, i),
      referenceLogProbs: own(columns.referenceLogProbs, i),
    };
    return { trajectory, ids: new Int32Array(0), isDemonstration: false, targets, advantages, ...logs };
  });
  const ends = made.reduce<number[]>((sums, { targets }) => [...sums, sums.at(-1)! + targets.length], [0]);
  return {
    sequences: made,
    forwarded: { offsets: Int32Array.from(ends), logProbs: logProbs.filter((_, t) => mask[t] === 1), entropy: null },
    positions: Int32Array.from(mask.keys()).filter((t) => mask[t] === 1),
  };
}

function raggedBatch(random: Random): MaskedBatch {
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
