/**
 * Fields of vLLM's requests that affect sampling but that the embedded engine lacks. Neutral values pass, others are refused by name: a run that configures a
 * penalty must not get samples without it. Fields that vLLM does not know are ignored, as in vLLM.
 */
import { isObject } from '../is-object.ts';
import { kindOrNumber } from '../kind-of.ts';
import { type Fields, wrongValue } from './request-problem.ts';

const isEmpty = (value: unknown) => typeof value === 'object' && value !== null && Object.keys(value).length === 0;
const is = (neutral: unknown) => (value: unknown) => value === neutral;
const never = () => false;
const isPlainText = (value: unknown) => isObject(value) && value['type'] === 'text';

/** For each field, tells whether a non-null value has no effect on the samples. */
const NEUTRAL: Readonly<Record<string, (value: unknown) => boolean>> = {
  repetition_penalty: is(1),
  presence_penalty: is(0),
  frequency_penalty: is(0),
  length_penalty: is(1),
  logit_bias: isEmpty,
  bad_words: isEmpty,
  logprob_token_ids: isEmpty,
  vllm_xargs: isEmpty,
  use_beam_search: is(false),
  watermarking: is(false),
  suffix: is(''),
  thinking_token_budget: is(-1),
  priority: is(0),
  response_format: isPlainText,
  structured_outputs: never,
  guided_json: never,
  guided_regex: never,
  guided_choice: never,
  guided_grammar: never,
  logits_processors: isEmpty,
  repetition_detection: never,
  truncate_prompt_tokens: never,
  prompt_embeds: never,
  kv_transfer_params: never,
};

/** The fields that are read only to refuse other values than a neutral one. */
export const REFUSED_FIELDS: readonly string[] = [...Object.keys(NEUTRAL), 'best_of'];

/** Ends the parser at the first unsupported field. `n`: choices per prompt. */
export function refuseUnsupported(fields: Fields, n: number): void {
  for (const [name, isNeutral] of Object.entries(NEUTRAL)) {
    const value = fields[name];
    if (value === undefined || value === null || isNeutral(value)) continue;
    wrongValue(name, `${name} is not supported by the embedded engine, got ${kindOrNumber(value)}; leave it out, or use a vLLM server`);
  }
  const best = fields['best_of'];
  if (best !== undefined && best !== null && best !== n) {
    wrongValue('best_of', `the embedded engine supports best_of only if it equals n (${n}), got ${kindOrNumber(best)}; leave it out`);
  }
}
