/** Reads one entry of `POST /v1/episodes/step`. It does so by hand, because Ajv would visit every token of every entry, which the episode checks anyway. */
import { isObject } from '../is-object.ts';
import { kindOf, kindOrNumber } from '../kind-of.ts';
import type { StepSample } from './episode-requests.ts';

/** `sample` is null for an entry that only waits. */
export type ParsedStep =
  | { readonly ok: true; readonly episodeId: string; readonly sample: StepSample | null }
  | { readonly ok: false; readonly episodeId: string | null; readonly problem: string };

const KEYS: ReadonlySet<string> = new Set(['episode_id', 'turn', 'token_ids', 'logprobs', 'text', 'finish_reason', 'version']);

export function parseStep(entry: unknown): ParsedStep {
  if (!isObject(entry)) return { ok: false, episodeId: null, problem: `The entry is ${kindOf(entry)}. Send an object with episode_id.` };
  const { episode_id: episodeId } = entry;
  if (typeof episodeId !== 'string' || episodeId === '') {
    return { ok: false, episodeId: null, problem: `episode_id is ${shown(episodeId)}. Send the episode_id of the turn that this sample answers.` };
  }
  const refuse = (problem: string): ParsedStep => ({ ok: false, episodeId, problem });
  const stranger = Object.keys(entry).find((key) => !KEYS.has(key));
  if (stranger !== undefined) return refuse(`The key ${JSON.stringify(stranger)} is unknown. Known are ${[...KEYS].join(', ')}.`);
  if (Object.keys(entry).length === 1) return { ok: true, episodeId, sample: null };
  const { turn, token_ids: tokenIds, logprobs, text, finish_reason: finish = null, version = null } = entry;
  if (!isCount(turn)) return refuse(`turn is ${shown(turn)}. Send the turn that this sample answers, a whole number from 0 up.`);
  if (finish !== null && finish !== 'stop' && finish !== 'length') return refuse(`finish_reason is ${shown(finish)}. Send "stop" or "length".`);
  if (version !== null && !isCount(version)) return refuse(`version is ${shown(version)}. Send a whole number from 0 up, or leave it out.`);
  const ending: StepSample['finish'] = finish;
  const common = { turn, finish: ending, version };
  if (text !== undefined) {
    if (tokenIds !== undefined || logprobs !== undefined) return refuse('The entry has text and token ids. Send one of them.');
    if (typeof text !== 'string') return refuse(`text is ${shown(text)}. Send a string.`);
    return { ok: true, episodeId, sample: { ...common, sample: { kind: 'chat', text } } };
  }
  if (!Array.isArray(tokenIds)) return refuse(`token_ids is ${shown(tokenIds)}. Send a list of token ids, or text.`);
  if (!Array.isArray(logprobs)) return refuse(`logprobs is ${shown(logprobs)}. Send a list of numbers, one for each token id.`);
  const odd = logprobs.findIndex((value) => typeof value !== 'number' && value !== null);
  if (odd >= 0) return refuse(`logprobs[${odd}] is ${shown(logprobs[odd])}. Send a number.`);
  const logProbs = logprobs.map((value: number | null) => value ?? NaN);
  return { ok: true, episodeId, sample: { ...common, sample: { kind: 'tokens', tokenIds: tokenIds as readonly number[], logProbs } } };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

const SHOWN_CHARACTERS = 32;

/** The value if it is short, else its kind. */
function shown(value: unknown): string {
  if (value === undefined) return 'missing';
  return typeof value === 'string' && value.length <= SHOWN_CHARACTERS ? JSON.stringify(value) : kindOrNumber(value);
}
