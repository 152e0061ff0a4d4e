/** Rollouts for the tests of credit, a backend whose log-probs a test writes down, and readings of what was credited. */
import type { Credit, CreditedBatch, LogProbPass } from '../../../src/trainer/credit.ts';
import { creditBatch, type CreditOptions } from '../../../src/trainer/credit/credit-batch.ts';
import { builtInCredit } from '../../../src/trainer/credit/registry.ts';
import type { ForwardOptions, ForwardResult, PackedBatch } from '../../../src/trainer/gradient-backend.ts';
import { logProbPass, type PassOptions } from '../../../src/trainer/gradients/log-prob-pass.ts';
import { TokenBudget } from '../../../src/trainer/gradients/token-budget.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { trajectory } from '../some-trajectories.ts';
import { StillBackend } from '../still-backend.ts';

const FAILURE = { reward: null, error: { type: 'PolicyError', message: 'refused', retryable: true, source: 'policy' as const } };
/** Population deviation and no epsilon: rewards 0 and 1 give advantages of exactly -1 and 1. */
export const PLAIN = { std: 'population', epsilon: 0 };

/** `a: [1, 0, null]` becomes a/0 with reward 1, a/1 with 0 and a/2 that failed. Two targets each, of one role and no task unless `changes` say so. */
export function rollouts(groups: Readonly<Record<string, readonly (number | null)[]>>, changes: Partial<Trajectory> = {}): Trajectory[] {
  return Object.entries(groups).flatMap(([name, rewards]) =>
    rewards.map((reward, i) => trajectory(`${name}/${i}`, { role: 'policy', ...changes, ...(reward === null ? FAILURE : { reward }) })),
  );
}

/** A row of a data set, which has no reward. */
export function row(id: string, weights?: Float64Array): Trajectory {
  return trajectory(id, { role: 'policy', reward: null, error: null, logProbs: null, ...(weights === undefined ? {} : { weights }) });
}

/** A rollout with these tokens after a prompt of one; `null` is an observation. The log-probs are the sampler's. */
export function spoken(rolloutId: string, reward: number, tokens: readonly (readonly [id: number, logProb: number] | null)[]): Trajectory {
  const ids = Int32Array.from([0, ...tokens.map((token) => token?.[0] ?? 99)]);
  const sampled = tokens.flatMap((token, i) => (token === null ? [] : [{ at: i + 1, logProb: token[1] }]));
  const targets = Int32Array.from(sampled, ({ at }) => at);
  return trajectory(rolloutId, {
    role: 'policy',
    reward,
    ids,
    promptLength: 1,
    targets,
    logProbs: Float64Array.from(sampled, ({ logProb }) => logProb),
  });
}

/** The log-prob of a token depends on its id alone: from the table of the adapter, else -1. */
export class TableBackend extends StillBackend {
  readonly #tables: Partial<Record<ForwardOptions['adapter'], Readonly<Record<number, number>>>>;

  constructor(tables: Partial<Record<ForwardOptions['adapter'], Readonly<Record<number, number>>>>) {
    super();
    this.#tables = tables;
  }

  override async forward(batch: PackedBatch, options: ForwardOptions): Promise<ForwardResult> {
    const { batchId } = await super.forward(batch, options);
    const table = this.#tables[options.adapter] ?? {};
    return { batchId, logProbs: Float32Array.from(batch.targets, (at) => table[batch.ids[at]!] ?? -1) };
  }
}

export function passOptions(backend: StillBackend = new StillBackend()): PassOptions {
  return { backend, budget: new TokenBudget(100), temperature: 1, signal: new AbortController().signal };
}

export function passOver(backend?: StillBackend): LogProbPass {
  return (sequences, adapter) => logProbPass(sequences, adapter, passOptions(backend));
}

/** The advantages of each rollout's tokens. */
export function advantagesOf({ groups }: CreditedBatch): Record<string, number[]> {
  return Object.fromEntries(groups.flat().map(({ trajectory: { rolloutId }, advantages }) => [rolloutId, [...advantages]]));
}

/** Of rollouts whose tokens are all credited alike: their advantage. */
export function advantageOf(batch: CreditedBatch): Record<string, number | undefined> {
  const all = Object.entries(advantagesOf(batch));
  for (const [id, own] of all) if (new Set(own).size > 1) throw new Error(`The tokens of ${id} are credited differently: ${own.join(', ')}`);
  return Object.fromEntries(all.map(([id, own]) => [id, own[0]]));
}

/** The built-in credit of a configuration, or another one: `assign` gives the sequences that a step trains on. */
export function credits(config: CreditOptions['config'], credit: Credit = builtInCredit(config)) {
  let step = 0;
  return {
    assign: (given: readonly Trajectory[], pass: LogProbPass = passOver()) => creditBatch(credit, given, { config, step: ++step, pass }),
    saveState: async (directory: string) => credit.saveState?.(directory),
    loadState: async (directory: string) => credit.loadState?.(directory),
  };
}
