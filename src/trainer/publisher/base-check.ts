/** Compares the servers' base model with the trainer's by the log-probs of one prompt, so that no run samples from another model than it trains. */
import { CancelledError, ConfigError, PublishError, TimeoutError } from '../../core/errors.ts';
import type { AdapterDescription, GradientBackend } from '../gradient-backend.ts';
import { defaultTolerance, difference, type Judgement, type LogProbDifference, nats, servedLogProbs } from './log-prob-probe.ts';
import type { LoraReplica } from './lora-routes.ts';

/** Rounding moves unlikely tokens of a prompt more than tokens that the policy sampled: bases that differ by less may be the same model. */
export const OTHER_BASE = 10;
/** A few are compared, spread over them. */
const CONSIDERED_TOKENS = 256;

export interface BaseCheck {
  readonly replicas: readonly LoraReplica[];
  /** The servers' name of the base model. */
  readonly baseModel: string;
  readonly backend: Pick<GradientBackend, 'adapter' | 'capabilities' | 'forward'>;
  /** One prompt, by the servers' tokenizer. [T] */
  readonly ids: Int32Array;
  /** The tolerance of a publish, in nats; null for the default of the backend's dtype. */
  readonly tolerance: number | null;
  readonly judgement: Judgement;
  readonly signal: AbortSignal;
}

/** Throws ConfigError if the bases clearly differ. Small differences, and servers that fail now, are left to the first publish. */
export async function assertSameBase({ replicas, baseModel, backend, ids, tolerance, judgement, signal }: BaseCheck): Promise<void> {
  const { adapter, capabilities } = backend;
  const foreign = ids.find((id) => id >= adapter.vocabularySize);
  if (foreign !== undefined)
    throw new ConfigError(
      `The server's tokenizer is not the trainer's: its prompts have token id ${foreign}, and ${adapter.baseModel} has ${adapter.vocabularySize} tokens. ${REMEDY}.`,
    );
  const targets = Int32Array.from({ length: ids.length - 1 }, (_, i) => i + 1).slice(-CONSIDERED_TOKENS);
  if (targets.length === 0) return;
  const batch = { ids, offsets: Int32Array.of(0, ids.length), targets, temperature: 1 };
  const { logProbs } = await backend.forward(batch, { retain: false, adapter: 'off', signal });
  const limit = tolerance ?? defaultTolerance(capabilities.dtype);
  for (const replica of replicas) {
    try {
      const served = await servedLogProbs(replica, { ids, targets, logProbs, tolerance: limit }, { model: baseModel, judgement, signal });
      const trained = served.chosen.map((i) => logProbs[i]!);
      const fault = await otherBase(replica, { baseModel, adapter, signal }, difference(served.logProbs, trained), limit);
      if (fault !== null) throw new ConfigError(`${fault}.`);
    } catch (error) {
      if (signal.aborted) throw new CancelledError("Stopped while comparing the server's base model with the trainer's", { cause: signal.reason });
      if (!(error instanceof PublishError || error instanceof TimeoutError)) throw error;
    }
  }
}

const REMEDY = "Start the server with the trainer's model and dtype, or set model.path to the model that the server serves";

/** The fault to report if the replica's base clearly differs from the trainer's; null if it may be the same. */
export async function otherBase(
  replica: LoraReplica,
  { baseModel, adapter, signal }: { readonly baseModel: string; readonly adapter: AdapterDescription; readonly signal: AbortSignal },
  { mean }: LogProbDifference,
  tolerance: number,
): Promise<string | null> {
  if (mean <= OTHER_BASE * tolerance) return null;
  const root = (await replica.card(baseModel, signal).catch(() => null))?.root ?? null;
  const served = root === null || root === baseModel ? baseModel : `${baseModel} (${root})`;
  return `The server's base model is not the trainer's: ${replica.url} serves ${served}, and the trainer holds ${adapter.baseModel}. Their log-probs of one prompt differ by ${nats(mean)} on average. ${REMEDY}`;
}
