/** A rollout reduced to what training needs: tokens, the sampler's log-probs, and the reward. */
import { TrainingError } from '../core/errors.ts';
import type { TextSegment } from '../core/rubric.ts';
import type { TokenBuffer } from '../core/token-buffer.ts';
import type { Rollout, RolloutError } from '../rollouts/rollout.ts';

export interface Trajectory {
  /** `<example id>/<index>`: unique within a step. */
  readonly rolloutId: string;
  /** Rollouts of one row share it. */
  readonly groupId: string;
  readonly index: number;
  /** Null if the rollout failed: a failure is never a reward of 0. */
  readonly reward: number | null;
  readonly metrics: Readonly<Record<string, number>>;
  /** Null exactly if there is a reward. */
  readonly error: Pick<RolloutError, 'type' | 'message' | 'retryable' | 'source'> | null;
  readonly stop: string;
  /** A length limit cut a generation short, or the context had no room left. */
  readonly isTruncated: boolean;
  /** The context was cut as upstream does. Only on a failed rollout: a finished one never becomes a trajectory. */
  readonly isCut: boolean;
  /** The version that sampled it; the smallest if there were several. */
  readonly version: number;
  /** The policy's name at the server. */
  readonly model: string;
  /** Number of generations. */
  readonly turns: number;
  /** The whole sequence, prompt first. [T]; T may be 0 for a failed rollout. */
  readonly ids: Int32Array;
  readonly promptLength: number;
  /** Indices in `ids` of the tokens that the policy sampled, ascending. [M]; M may be 0. */
  readonly targets: Int32Array;
  /** Natural-log probability of each target under the sampler. [M], all finite. */
  readonly logProbs: Float64Array;
  /** The version that sampled each target, only if they differ. [M] */
  readonly versions?: Int32Array;
  readonly segments: readonly TextSegment[];
  readonly usage: Rollout['usage'];
}

/**
 * Throws TrainingError for a finished rollout without tokens or with a cut context: the run's setup then allows no training at all. A failed rollout
 * always becomes a trajectory, so that it is counted.
 */
export function trajectoryOf(rollout: Rollout): Trajectory {
  const { rolloutId, tokens, error, isCut } = rollout;
  if (error === null && tokens === null) {
    throw new TrainingError(
      `Rollout ${rolloutId} has no token ids and log-probs; train with a policy client that samples by token ids (vLLM's /v1/completions)`,
    );
  }
  if (error === null && isCut) {
    throw new TrainingError(
      `The context of rollout ${rolloutId} was cut, so it cannot be trained on; set overlong = "stop" for training ("upstream" is only for evaluation)`,
    );
  }
  return {
    rolloutId,
    groupId: rollout.groupId,
    index: rollout.index,
    // + 0 turns -0, which JSON does not preserve, into 0.
    reward: rollout.reward === null ? null : rollout.reward + 0,
    metrics: Object.fromEntries(Object.entries(rollout.metrics).map(([name, value]) => [name, value + 0])),
    error: error && { type: error.type, message: error.message, retryable: error.retryable, source: error.source },
    stop: rollout.stop,
    isTruncated: rollout.isTruncated,
    isCut,
    model: rollout.policy.model,
    turns: rollout.generations.length,
    ...sampledTokens(tokens, rollout.policy.version),
    segments: rollout.segments.map(({ kind, text }) => ({ kind, text })),
    usage: rollout.usage,
  };
}

type SampledTokens = Pick<Trajectory, 'version' | 'ids' | 'promptLength' | 'targets' | 'logProbs' | 'versions'>;

function sampledTokens(tokens: TokenBuffer | null, leased: number): SampledTokens {
  if (tokens === null) return { version: leased, ids: new Int32Array(0), promptLength: 0, targets: new Int32Array(0), logProbs: new Float64Array(0) };
  const written = tokens.segments.filter(({ kind, start, end }) => kind === 'model' && end > start);
  const targets = new Int32Array(tokens.sampledLength);
  const versions = new Int32Array(tokens.sampledLength);
  let count = 0;
  for (const { start, end, version } of written) {
    for (let at = start; at < end; at++, count++) {
      targets[count] = at;
      versions[count] = version ?? leased;
    }
  }
  const everyLogProb = tokens.logProbs;
  const version = versions.reduce((smallest, each) => Math.min(smallest, each), versions[0] ?? leased);
  return {
    version,
    ids: tokens.ids.slice(),
    promptLength: tokens.promptLength,
    targets,
    logProbs: Float64Array.from(targets, (at) => everyLogProb[at]!),
    ...(versions.some((each) => each !== version) ? { versions } : {}),
  };
}
