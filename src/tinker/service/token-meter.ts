/** Counts what a training service computes, in the units that it bills. */

/** Numbers of tokens. */
export interface ServiceTokens {
  /** Read: prompts of samples, and forward passes without a gradient. */
  readonly prefill: number;
  /** Sampled. */
  readonly sample: number;
  /** In passes with a gradient. */
  readonly train: number;
}

export const NO_SERVICE_TOKENS: ServiceTokens = { prefill: 0, sample: 0, train: 0 };

export function plusServiceTokens(a: ServiceTokens, b: Partial<ServiceTokens>): ServiceTokens {
  const { prefill = 0, sample = 0, train = 0 } = b;
  return { prefill: a.prefill + prefill, sample: a.sample + sample, train: a.train + train };
}

export class TokenMeter {
  #tokens = NO_SERVICE_TOKENS;

  /** Since the last `take`. */
  get tokens(): ServiceTokens {
    return this.#tokens;
  }

  add(tokens: Partial<ServiceTokens>): void {
    this.#tokens = plusServiceTokens(this.#tokens, tokens);
  }

  /** Returns the tokens and begins again at zero. */
  take(): ServiceTokens {
    const taken = this.#tokens;
    this.#tokens = NO_SERVICE_TOKENS;
    return taken;
  }
}
