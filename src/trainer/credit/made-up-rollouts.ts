/**
 * Rollouts that nobody played, on which the credit and the losses of modules are tried before anything is sampled, in step 0: a wrong shape, NaN, a changed batch or an error ends
 * the set-up, not the first step. Another instance is tried than the run's, which must have no memory of it. It cannot tell whether a module does what its user wants.
 */
import { ConfigError, VfError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { TokenKinds } from '../credit.ts';
import { POLICY_ROLE, type Trajectory } from '../trajectory.ts';

/** What the made-up rollouts take from the real data. */
export interface TriedRows {
  /** Ids, roles and tasks of two rows. */
  readonly rows: readonly { readonly exampleId: string | number; readonly role?: string; readonly task?: string | null }[];
  /** Names of the metrics that a rollout has. */
  readonly metrics: readonly string[];
}

/** The numbers of sampled tokens in the turns of each rollout of a row; a turn may have none. */
const TURNS = [[3, 2], [4], [2, 0, 1], [5]] as const;
const PROMPT = 2;

/** Two rows: different rewards and numbers of turns in the first, equal ones in the second, where one more rollout failed. */
export function madeUpRollouts({ rollouts }: TrainingConfig, { rows, metrics }: TriedRows): Trajectory[] {
  const members = Math.min(rollouts.rolloutsPerExample, TURNS.length);
  return [0, 1].flatMap((g) => {
    const row = rows[g] ?? { exampleId: `made-up-${g}` };
    const finished = Array.from({ length: members }, (_, index) =>
      rolloutOf(row, index, { turns: TURNS[index]!, reward: g === 0 ? index / 4 : 1, metrics }),
    );
    return g === 0 || members === rollouts.rolloutsPerExample ? finished : [...finished, failed(finished[0]!, members)];
  });
}

interface MadeUp {
  readonly turns: readonly number[];
  readonly reward: number;
  readonly metrics: readonly string[];
}

function rolloutOf(
  { exampleId, role = POLICY_ROLE, task = null }: TriedRows['rows'][number],
  index: number,
  { turns, reward, metrics }: MadeUp,
): Trajectory {
  const targets: number[] = [];
  let length = PROMPT;
  for (const tokens of turns) {
    for (let t = 0; t < tokens; t++) targets.push(length++);
    // The token that the environment adds.
    length += 1;
  }
  const sampled = Int32Array.from(targets);
  return {
    rolloutId: `${exampleId}/${index}`,
    groupId: String(exampleId),
    index,
    role,
    task,
    reward,
    metrics: Object.fromEntries(metrics.map((name) => [name, 0.5])),
    error: null,
    stop: 'completed',
    isTruncated: false,
    isCut: false,
    turns: turns.length,
    policy: { model: 'made-up', version: 0 },
    usage: { inputTokens: length - targets.length, outputTokens: targets.length, cachedTokens: null },
    ids: Int32Array.from({ length }, (_, at) => at % 7),
    promptLength: PROMPT,
    targets: sampled,
    logProbs: logProbsOf(sampled),
    turnTokens: turns,
    turnRewards: turns.map((_, turn) => (turn === 0 ? 0.25 : null)),
    segments: turns.flatMap((_, turn) => [
      { kind: 'model' as const, text: `<search>turn ${turn}</search>` },
      { kind: 'observation' as const, text: 'made up' },
    ]),
  };
}

function failed(rollout: Trajectory, index: number): Trajectory {
  const error = { type: 'PolicyError', message: 'made up', retryable: true, source: 'policy' } as const;
  return { ...rollout, rolloutId: `${rollout.groupId}/${index}`, index, reward: null, metrics: {}, error };
}

export function logProbsOf({ length }: ArrayLike<number>): Float64Array {
  return Float64Array.from({ length }, (_, t) => -0.25 * (t + 1));
}

export const madeUpKinds: TokenKinds = ({ targets }) => Array.from(targets, () => 'search');

/** Tries a module on them; a fault then is one of the set-up. */
export async function onMadeUpRollouts(tryModule: () => Promise<void> | void): Promise<void> {
  try {
    await tryModule();
  } catch (cause) {
    if (!(cause instanceof VfError)) throw cause;
    throw new ConfigError(`${cause.message.replace(/\.$/, '')}. Found on made-up rollouts (step 0), before anything was sampled`, { cause });
  }
}
