/** A request's sampling options in the form that the sampler uses, computed once. */
import type { SamplerRequest } from './sampler-types.ts';

/** Temperatures below this are greedy, as in vLLM (v1/sample/sampler.py, _SAMPLING_EPS). */
const GREEDY_BELOW = 1e-5;

export interface SamplingPlan {
  readonly isGreedy: boolean;
  readonly inverseTemperature: number;
  /** 0 keeps all. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  /** Ascending, without repetition; null allows all. */
  readonly allowed: Int32Array | null;
  /** End tokens and stop ids, which are not sampled within the first `minTokens`. */
  readonly suppressed: ReadonlySet<number>;
  readonly minTokens: number;
  /** Number of alternatives; null returns no log-probs at all. */
  readonly logProbs: number | null;
  readonly isRaw: boolean;
}

export function samplingPlan(
  request: SamplerRequest,
  model: { readonly vocabularySize: number; readonly endTokenIds: readonly number[] },
): SamplingPlan {
  const { sampling, stop, allowedTokenIds, logProbs, logProbsMode } = request;
  const isGreedy = sampling.temperature < GREEDY_BELOW;
  return {
    isGreedy,
    inverseTemperature: isGreedy ? 1 : 1 / sampling.temperature,
    topK: sampling.topK > 0 && sampling.topK < model.vocabularySize ? sampling.topK : 0,
    topP: sampling.topP,
    minP: sampling.minP,
    allowed:
      allowedTokenIds === null || allowedTokenIds instanceof Int32Array ? allowedTokenIds : Int32Array.from(new Set(allowedTokenIds)).toSorted(),
    // Includes end tokens even with `ignoreEnd`, as in vLLM (sampling_params.py, all_stop_token_ids).
    suppressed: new Set(stop.minTokens > 0 ? [...model.endTokenIds, ...stop.tokenIds] : []),
    minTokens: stop.minTokens,
    logProbs,
    isRaw: logProbsMode === 'raw',
  };
}
