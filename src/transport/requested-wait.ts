/**
 * The wait that a server requests when it refuses for its rate limit: by Retry-After, in the text of the error, or by the time at which an exhausted
 * counter is filled again.
 */
import type { HttpHeaders, HttpResponse } from './http-endpoint.ts';

/** In milliseconds from `now` (milliseconds since the epoch); null if the response names no wait. */
export function requestedWaitMs({ headers, body }: Partial<Pick<HttpResponse, 'headers' | 'body'>>, now: number = Date.now()): number | null {
  return retryAfterMs(headers ?? {}, now) ?? waitInBodyMs(body, now) ?? resetMs(headers ?? {}, now);
}

/**
 * The wait that Retry-After or OpenAI's `retry-after-ms` requests, in milliseconds; null if there is neither or it is malformed. Besides seconds and a date, as HTTP
 * has it, servers send durations (`20s`) and times since the epoch.
 */
export function retryAfterMs(headers: HttpHeaders, now: number = Date.now()): number | null {
  const precise = Number.parseFloat(single(headers['retry-after-ms']));
  if (precise >= 0) return precise;
  const waits = ['retry-after', 'x-retry-after', 'x-ratelimit-retry-after'].map((name) => untilMs(single(headers[name]).trim(), now));
  return waits.find((wait) => wait >= 0) ?? null;
}

/** Numbers from here on are times in milliseconds since the epoch, smaller ones from `EPOCH_S` on in seconds. Still smaller ones are seconds from now. */
const EPOCH_MS = 1e11;
const EPOCH_S = 1e8;

/**
 * `x-ratelimit-reset-requests: 1s` (OpenAI, Groq), `anthropic-ratelimit-tokens-reset: 2026-01-01T00:00:00Z`, `x-ratelimit-reset: 1741305600000`
 * (OpenRouter), `ratelimit: "api";r=0;t=57` (Hugging Face), `ratelimit: limit=100, remaining=0, reset=57`. Counters that have something left are not the reason.
 */
function resetMs(headers: HttpHeaders, now: number): number | null {
  const waits = Object.entries(headers).flatMap(([name, value]) => {
    const text = single(value).trim();
    if (name === 'ratelimit') return /\b(r|remaining)=0\b/.test(text) ? [Number(/\b(?:t|reset)=(\d+)/.exec(text)?.[1] ?? NaN) * 1000] : [];
    if (!/rate-?limit.*reset/.test(name)) return [];
    const left = single(headers[name.replace('reset', 'remaining')]).trim();
    return left === '' || Number(left) <= 0 ? [untilMs(text, now)] : [];
  });
  const known = waits.filter((wait) => wait >= 0);
  return known.length === 0 ? null : Math.max(...known);
}

/** NaN if the text is neither a time nor a duration. */
function untilMs(text: string, now: number): number {
  if (/^\d+(\.\d+)?$/.test(text)) {
    const number = Number(text);
    return Math.max(0, number >= EPOCH_MS ? number - now : number >= EPOCH_S ? number * 1000 - now : number * 1000);
  }
  if (/^\d{4}-\d\d-\d\dT|^[a-z]{3,9},? /i.test(text)) return Math.max(0, Date.parse(text) - now);
  return durationMs(text);
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
/** One part of `2m59.56s` or `26 seconds`, without its unit's ending. */
const PART = /(?<!\d)(\d+(?:\.\d+)?) ?(ms|milliseconds?|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?)(?![a-z])/i;
const PARTS = new RegExp(`^(?:${PART.source.replace('(?![a-z])', '')}[ ,]*)+`, 'i');

/** Milliseconds of a duration at the beginning of the text; NaN if there is none. */
function durationMs(text: string): number {
  const whole = PARTS.exec(text)?.[0];
  if (whole === undefined) return NaN;
  const parts = whole.matchAll(/(?<!\d)(\d+(?:\.\d+)?) ?([a-z]+)/gi);
  return [...parts].reduce((sum, [, amount, unit]) => sum + Number(amount) * UNIT_MS[unitOf(unit!.toLowerCase())]!, 0);
}

function unitOf(word: string): string {
  return word === 'ms' || word.startsWith('mil') ? 'ms' : word[0]!;
}

/** Number of bytes of an error in which a wait is looked for. */
const SEARCHED_BYTES = 16_384;

/** A field of JSON, which may be within a text: Gemini's `"retryDelay": "34s"`, `"retry_after_seconds": 12`, and the headers that OpenRouter repeats. */
const FIELD = /\\?"(?:retry[-_]?(?:after|delay)|x-ratelimit-reset)[-_]?(ms|s|seconds)?\\?" *: *\\?"?([^"\\,}\]]+)/gi;
/** OpenAI's "Please try again in 6m0s"; Azure's "Please retry after 26 seconds"; others' "Please wait 12 seconds" and "Your quota resets in 12s". */
const WORDS = /(?:(?:try(?: again)?|retry(?:ing)?|resets?) (?:in|after)|wait(?: for)?) /gi;

function waitInBodyMs(body: Buffer | undefined, now: number): number | null {
  if (body === undefined) return null;
  const text = body.subarray(0, SEARCHED_BYTES).toString('utf8');
  const named = [...text.matchAll(FIELD)].map(([, unit = '', value]) => untilMs(unit.toLowerCase() === 'ms' ? `${value} ms` : value!.trim(), now));
  const said = [...text.matchAll(WORDS)].map(({ 0: words, index }) => durationMs(text.slice(index + words.length, index + words.length + 60)));
  return [...named, ...said].find((wait) => wait >= 0) ?? null;
}

function single(value: string | string[] | undefined): string {
  return (Array.isArray(value) ? value[0] : value) ?? '';
}
