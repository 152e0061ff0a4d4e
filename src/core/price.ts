/** The cost of a model's tokens. Pure; it does not know the prices of models. */

import type { Usage } from './sampling.ts';

/** US dollars per million tokens. */
export interface Price {
  readonly input: number;
  /** Price of input tokens that the server had in its prefix cache. */
  readonly cached: number;
  readonly output: number;
}

/** An answered call has read at least one token; with 0 in both counts, its server reported no usage. */
export function callTokens({ promptTokens, completionTokens, cachedTokens }: Usage): BilledTokens {
  const tokens = billed(promptTokens, completionTokens, cachedTokens);
  return promptTokens + completionTokens === 0 ? { ...tokens, uncounted: 1 } : tokens;
}

/** The price of a model in this process. */
export const FREE: Price = { input: 0, cached: 0, output: 0 };

/** Tokens to pay for. `cached` is the part of `input` that the server reported as cached. */
export interface BilledTokens {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  /** Answered calls whose server reported no usage: the sums lack their tokens. Absent if zero. */
  readonly uncounted?: number;
}

export const NO_TOKENS: BilledTokens = { input: 0, cached: 0, output: 0 };

/** `cached` is null if the server does not report it: then all of the input has the full price. */
export function billed(input: number, output: number, cached: number | null): BilledTokens {
  return { input, cached: Math.min(input, cached ?? 0), output };
}

export function plusTokens(a: BilledTokens, b: BilledTokens): BilledTokens {
  const uncounted = (a.uncounted ?? 0) + (b.uncounted ?? 0);
  return { input: a.input + b.input, cached: a.cached + b.cached, output: a.output + b.output, ...(uncounted === 0 ? {} : { uncounted }) };
}

/** Returns the cost of the counted tokens, in US dollars. */
export function costOf({ input, cached, output }: BilledTokens, price: Price): number {
  return ((input - cached) * price.input + cached * price.cached + output * price.output) / 1e6;
}
