/** Sampling parameters in the form of metadata and exports: the same keys in every file, so that files of several runs load together. */
import { countOrNull, numberOrNull, object, text } from './json-schema.ts';

export interface SamplingColumns {
  /** Null if it was left to the server, like `top_p`. */
  readonly temperature: number | null;
  readonly top_p: number | null;
  /** Most tokens of one generation; null if no limit is known. */
  readonly max_tokens: number | null;
  /** Further fields of the request as the text of a JSON object, `{}` without any. Text, because a column that is null throughout one file has no type. */
  readonly extra: string;
}

/** The form in this package's files. */
export const recordedSampling = object({ temperature: numberOrNull, top_p: numberOrNull, max_tokens: countOrNull, extra: text });
/** The form in exports of other programs. */
export const anySampling = object({}, { temperature: numberOrNull, top_p: numberOrNull, max_tokens: countOrNull });

interface Sampling {
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly maxTokens: number | null;
  /** Without secrets. */
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
  readonly leaveOut?: readonly string[] | undefined;
}

export function samplingColumns({ temperature, topP, maxTokens, extra = {}, leaveOut = [] }: Sampling): SamplingColumns {
  const further = { ...extra, ...Object.fromEntries(leaveOut.map((name) => [name, null])) };
  return { temperature, top_p: topP, max_tokens: maxTokens, extra: JSON.stringify(further) };
}

/** The columns of a caller that describes its sampling in the fields of OpenAI's API, or does not describe it. */
export function callerSamplingColumns(fields: Readonly<Record<string, unknown>>): SamplingColumns {
  const { temperature, top_p, max_tokens, ...further } = fields;
  const numberOf = (value: unknown) => (typeof value === 'number' ? value : null);
  return { temperature: numberOf(temperature), top_p: numberOf(top_p), max_tokens: numberOf(max_tokens), extra: JSON.stringify(further) };
}
