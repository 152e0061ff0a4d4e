/** Finds configurations whose clip can never bind, because every importance ratio is 1. */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { trainingConfigSchema } from '../../schemas/training-config.ts';

const { clip_low: low, clip_high: high } = trainingConfigSchema.properties.algorithm.properties.loss.properties;

type ClipConfig = Pick<TrainingConfig, 'steps' | 'algorithm' | 'losses' | 'rollouts' | 'policy' | 'backend' | 'rolloutsFile'>;

/**
 * Returns a notice if a clip is configured and no token can ever be clipped; null if one might be. With one optimiser step a batch there are two such cases:
 * - `old_log_probs = "trainer"`: the old log-probs are those of the step's own pass, so the ratio is exactly 1, whatever sampled the rollouts.
 * - `old_log_probs = "sampler"`, and the embedded engine samples and trains with the same weights: the ratio is 1 but for the rounding of float32. That
 *   is the laptop's setup, so the notice appears only if the user chose the clip. With another server or backend nothing is certain.
 * @param hasOwnSource rollouts come from a module, which may bring those of other policies
 */
export function clipNotice(config: ClipConfig, hasOwnSource: boolean): string | null {
  const { steps, algorithm, losses, rollouts, policy, backend, rolloutsFile } = config;
  const { loss, oldLogProbs, minibatches, epochs } = algorithm;
  const isUsed = loss.use === 'ratio' || Object.values(losses).some(({ use }) => use === 'ratio');
  if (steps === 0 || !isUsed || loss.objective !== 'clip' || minibatches * epochs > 1) return null;
  const remedy = 'set algorithm.minibatches or algorithm.epochs above 1, or algorithm.loss.objective = "importance_sampling", which is then the same';
  const begin = 'No token can ever be clipped: with one optimiser step a batch';
  if (oldLogProbs === 'trainer') return `${begin} and algorithm.old_log_probs = "trainer", every importance ratio is 1; ${remedy}.`;
  const isOneEngine =
    policy.embedded !== null && backend.kind === 'embedded' && rollouts.maxStaleness === 0 && rolloutsFile === null && !hasOwnSource;
  const isChosen = loss.ratio === 'sequence' || loss.dualClip !== null || loss.clipLow !== low.default || loss.clipHigh !== high.default;
  if (!isOneEngine || !isChosen) return null;
  return `${begin} and one engine that samples and trains, every importance ratio is 1 but for rounding; ${remedy}.`;
}
