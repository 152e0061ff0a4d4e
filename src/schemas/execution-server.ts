/** The requests of `vf-serve execute`. */
import type { XStatic } from 'typebox/schema';
import { anyOf, atLeastOne, choice, closed, flag, listOf, text } from './json-schema.ts';

/** Calls of one job. */
const MOST_CALLS = 256;
/** Longest answer to a job: its calls times their longest repr, in characters. */
export const MOST_REPR_CHARACTERS = 2 ** 24;
const MOST_NAMES = 1000;
const MEBIBYTE = 2 ** 20;

export const RunRequestSchema = closed(
  { code: text, calls: { ...listOf(text), maxItems: MOST_CALLS } },
  {
    hash_seed: { type: 'integer', minimum: 0, maximum: 2 ** 32 - 1 },
    limits: closed(
      {},
      {
        seconds: { type: 'number', minimum: 0.01, maximum: 600 },
        memory_bytes: { type: 'integer', minimum: 32 * MEBIBYTE, maximum: 4096 * MEBIBYTE },
        output_bytes: { type: 'integer', minimum: 0, maximum: 64 * MEBIBYTE },
        repr_length: { ...atLeastOne, maximum: MOST_REPR_CHARACTERS },
      },
    ),
  },
);
export type RunRequest = XStatic<typeof RunRequestSchema>;

export const AnalyseRequestSchema = closed(
  { code: text },
  {
    banned: { ...listOf(text), maxItems: MOST_NAMES },
    banned_rule: choice('any_spelling', 'modules'),
    measured: flag,
    rewrites: {
      ...listOf(anyOf(choice('comments', 'definitions', 'prints'), { type: 'array', items: text, minItems: 2, maxItems: 2 })),
      maxItems: 10,
    },
  },
);
export type AnalyseRequest = XStatic<typeof AnalyseRequestSchema>;
