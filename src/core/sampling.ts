/** Sampling parameters, token counts and the bound of a log-prob. */

/** Sampling parameters. A policy by token ids sends all of them with every request, so that a server's defaults never apply. */
export interface Sampling {
  /** At least 0; 0 is greedy. Null: not sent to a chat API, which then uses its own; 1 for every other policy. */
  readonly temperature: number | null;
  /** In (0, 1]. Below 1, a trainer cannot reproduce the log-probs. Null as for `temperature`. */
  readonly topP: number | null;
  /** Further fields of the request, passed unchanged (`top_k`, `min_p`, ...). @default none */
  readonly extra?: Readonly<Record<string, unknown>>;
  /** Fields that a chat API never gets, such as `stop`, although the environment sets them. @default none */
  readonly leaveOut?: readonly string[];
}

/** The sampling of a policy that needs all parameters: null is 1. */
export function wholeSampling({ temperature, topP, extra }: Sampling): Sampling & { readonly temperature: number; readonly topP: number } {
  return { temperature: temperature ?? 1, topP: topP ?? 1, ...(extra === undefined ? {} : { extra }) };
}

/** The fields of a request as they are recorded; a field that is never sent has null, one that nobody set is absent. */
export function samplingFields({ temperature, topP, extra = {}, leaveOut = [] }: Sampling, maxTokens: number | null): Record<string, unknown> {
  return {
    ...(temperature === null ? {} : { temperature }),
    ...(topP === null ? {} : { top_p: topP }),
    ...(maxTokens === null || 'max_completion_tokens' in extra ? {} : { max_tokens: maxTokens }),
    ...extra,
    ...Object.fromEntries(leaveOut.map((name) => [name, null])),
  };
}

interface FieldRange {
  readonly expected: string;
  readonly accepts: (value: unknown) => boolean;
}

const isNumber = (value: unknown): value is number => Number.isFinite(value);
const from = (least: number, most: number) => ({
  expected: `a number from ${least} to ${most}`,
  accepts: (value: unknown) => isNumber(value) && value >= least && value <= most,
});
const integer = (least: number) => ({
  expected: `an integer of at least ${least}`,
  accepts: (value: unknown) => Number.isSafeInteger(value) && (value as number) >= least,
});

/** The values of the fields that every server reads alike. vLLM takes them, and a server that takes fewer says so itself. */
export const SAMPLED_FIELDS = {
  temperature: from(0, 100),
  top_p: { expected: 'a number above 0 and up to 1', accepts: (value: unknown) => isNumber(value) && value > 0 && value <= 1 },
  max_tokens: integer(1),
  max_completion_tokens: integer(1),
  min_tokens: integer(0),
  top_k: integer(-1),
  min_p: from(0, 1),
  presence_penalty: from(-2, 2),
  frequency_penalty: from(-2, 2),
  repetition_penalty: { expected: 'a number above 0', accepts: (value: unknown) => isNumber(value) && value > 0 },
} as const satisfies Readonly<Record<string, FieldRange>>;

export type SampledField = keyof typeof SAMPLED_FIELDS;

/** What a field of a request must be, such as `a number from 0 to 100`, if the value is something else; null for a right value and for a field of some servers only. */
export function samplingRange(name: string, value: unknown): string | null {
  const range: FieldRange | undefined = Object.hasOwn(SAMPLED_FIELDS, name) ? SAMPLED_FIELDS[name as SampledField] : undefined;
  if (range !== undefined) return range.accepts(value) ? null : range.expected;
  return typeof value === 'number' && !Number.isFinite(value) ? 'a finite number' : null;
}

/** Fields of a chat request that only the chat template reads. */
const OF_TEMPLATE: ReadonlySet<string> = new Set(['chat_template_kwargs', 'documents', 'enable_thinking', 'reasoning_effort']);

export function isTemplateField(name: string): boolean {
  return OF_TEMPLATE.has(name);
}

/**
 * The variables of the chat template that a request's fields set, merged as vLLM's chat route does it: an effort also switches thinking on or off.
 * @example templateVariables({ extra: { reasoning_effort: 'none' } }) // { reasoning_effort: 'none', enable_thinking: false }
 */
export function templateVariables({ extra = {} }: Pick<Sampling, 'extra'>): Readonly<Record<string, unknown>> {
  const { chat_template_kwargs: named, documents, enable_thinking: thinks, reasoning_effort: effort } = extra;
  return {
    ...(isSet(effort) ? { enable_thinking: effort !== 'none' } : {}),
    ...(isSet(thinks) ? { enable_thinking: thinks } : {}),
    ...(named as Readonly<Record<string, unknown>> | null | undefined),
    ...(isSet(documents) ? { documents } : {}),
    ...(isSet(effort) ? { reasoning_effort: effort } : {}),
  };
}

/** The fields of a request whose prompt is already rendered. */
export function renderedRequestFields({ extra = {} }: Pick<Sampling, 'extra'>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(extra).filter(([name]) => !isTemplateField(name)));
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Token counts of one call. */
export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Prompt tokens served from the prefix cache; null if the server does not report them. */
  readonly cachedTokens: number | null;
}

/** True if the value can be a server's count of tokens. */
export function isTokenCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
