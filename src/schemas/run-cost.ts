/** The cost of a run, in the form of its summary and its metadata. */
import type { XStatic } from 'typebox/schema';
import { byName, count, listOf, nullable, number, numberOrNull, object, text } from './json-schema.ts';

/** In US dollars; null if a model has no known price, or its server reported no usage. */
export interface RunCost {
  readonly usd: number | null;
  readonly policy: number | null;
  /** By role. */
  readonly roles: Readonly<Record<string, number | null>>;
  /** The part of a training service; null without its price, absent without a service. */
  readonly service?: number | null;
  /** The part of `usd` for attempts and rollouts that failed and were played again; they are in no other figure of the summary. */
  readonly repeated: number | null;
  /** Models without a known price that were called. */
  readonly unpriced: readonly string[];
  /** Models with a price whose servers did not report the tokens of every call. */
  readonly uncounted: readonly string[];
  /** The ceiling that was set; null for none. */
  readonly limit: number | null;
  /** True if the run stopped at the ceiling before its last rollout. */
  readonly limitReached: boolean;
}

const price = nullable(object({ input: number, cached: number, output: number }));

const cost = {
  usd: numberOrNull,
  policy: numberOrNull,
  roles: byName(numberOrNull),
  repeated: numberOrNull,
  unpriced: listOf(text),
  limit: numberOrNull,
  limit_reached: { type: 'boolean' },
  /** US dollars per million tokens, as in the last session. */
  prices: object({ policy: price, roles: byName(price) }),
};

export const RunCostSchema = object(cost, { uncounted: listOf(text) });

const tokens = object({ input: count, cached: count, output: count }, { uncounted: count });

/** Tokens by payer; `cached` is the part of `input` that the server reported as cached. */
export const SpendingSchema = object({ policy: tokens, roles: byName(tokens) });
export type WireSpending = XStatic<typeof SpendingSchema>;
