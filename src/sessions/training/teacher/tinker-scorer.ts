/** Log-probs of given tokens from a service that speaks the Tinker API: those of a prompt, of which one more token is sampled, as the SDK's `compute_logprobs` asks for them. */
import { eitherSignal } from '../../../core/abort.ts';
import { Limiter } from '../../../core/limiter.ts';
import type { SamplingSession } from '../../../tinker/service/sampling-session.ts';
import type { SampledWeights } from '../../../tinker/service/service-session.ts';
import { TinkerError } from '../../../tinker/service/tinker-error.ts';
import type { TokenScorer } from '../../../trainer/teacher.ts';
import type { TokenPart } from '../../../trainer/trajectory-branches.ts';

export interface TinkerScorerOptions {
  readonly sampling: SamplingSession;
  readonly weights: SampledWeights;
  /** The window of the model, in tokens; null if it is unknown. */
  readonly maxModelLen: number | null;
  /** Sequences at once, from 1. */
  readonly maxConcurrent: number;
}

export class TinkerScorer implements TokenScorer {
  readonly #options: TinkerScorerOptions;
  readonly #limiter: Limiter;

  constructor(options: TinkerScorerOptions) {
    this.#options = options;
    this.#limiter = new Limiter(options.maxConcurrent);
  }

  /** NaN for a sequence that the window does not hold, and for a token whose log-prob the service leaves out. The first failure ends the requests of the others. */
  async score(sequences: readonly TokenPart[], caller: AbortSignal): Promise<readonly Float64Array[]> {
    const failed = new AbortController();
    using either = eitherSignal(caller, failed.signal);
    const { signal } = either;
    const one = async (sequence: TokenPart) => {
      try {
        return await this.#limiter.run(() => this.#scoreOne(sequence, signal), signal);
      } catch (error) {
        failed.abort(error);
        throw error;
      }
    };
    return await Promise.all(sequences.map(one));
  }

  async #scoreOne({ ids, targets }: TokenPart, signal: AbortSignal): Promise<Float64Array> {
    const { sampling, weights, maxModelLen } = this.#options;
    const end = (targets.at(-1) ?? -1) + 1;
    // The service samples a token behind the prompt.
    if (end === 0 || end >= (maxModelLen ?? Infinity)) return new Float64Array(targets.length).fill(NaN);
    const prompt = ids.subarray(0, end);
    const { promptLogProbs } = await sampling.sample({ weights, prompt, maxTokens: 1, temperature: 1, hasPromptLogProbs: true, signal });
    if (promptLogProbs === null)
      throw new TinkerError(`${sampling.url} returns no log-probs of prompts, so that it cannot score tokens; use a service that does`);
    return Float64Array.from(targets, (target) => promptLogProbs[target] ?? NaN);
  }
}
