/** -t, -T and -S as what is sent with every request. */
import type { Sampling } from '../../clients/policy-client.ts';
import { ConfigError } from '../../core/errors.ts';
import { hideSecrets } from '../../transport/redact.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { Settings } from './settings.ts';

/** Fields of the request that the rollout itself decides, and who decides them. */
const RESERVED: Readonly<Record<string, string>> = {
  seed: 'use --seed; no seed is sent to a server, so rollouts of one row differ',
  n: 'use -r for several rollouts of a row',
  best_of: 'use -r for several rollouts of a row',
  model: 'use -m',
  messages: 'the environment writes the prompt',
  prompt: 'the environment writes the prompt',
  stop: 'the environment says where a generation ends',
  stream: 'answers are read whole',
  stream_options: 'answers are read whole',
  logprobs: 'log-probs are asked for wherever the server gives them',
  top_logprobs: 'log-probs are asked for wherever the server gives them',
  echo: 'the prompt is known already',
  return_token_ids: 'token ids are asked for wherever the server gives them',
  prompt_embeds: 'the environment writes the prompt',
  truncate_prompt_tokens: 'the policy must see what is recorded; an environment has limits of its own',
  stop_token_ids: 'the environment says where a generation ends',
  prompt_logprobs: 'log-probs are asked for wherever the server gives them',
  return_tokens_as_token_ids: 'token ids are asked for wherever the server gives them',
  skip_special_tokens: 'text and token ids must say the same',
  detokenize: 'text and token ids must say the same',
  cache_salt: 'it names the version of the policy',
  add_special_tokens: 'the prompt is rendered once, by the chat template',
  include_stop_str_in_output: 'the environment needs the stop string in the text',
};

export interface ReadSampling {
  readonly sampling: Sampling;
  readonly maxTokens: number | null;
}

/** Throws ConfigError for a value out of range and for a field that is not the user's to set. */
export function readSampling(settings: Settings): ReadSampling {
  const { extra_body: body, ...direct } = settings['sampling-args'] ?? {};
  // Python clients put what OpenAI does not know under extra_body; on the wire it stands beside the rest.
  if (body !== undefined && !isObject(body)) throw wrong('extra_body', 'an object', body);
  const given: Record<string, unknown> = { ...body, ...direct };
  for (const [key, reason] of Object.entries(RESERVED)) {
    if (Object.hasOwn(given, key)) throw new ConfigError(`-S does not take "${key}": ${reason}`);
  }
  const { temperature = settings.temperature ?? 1, top_p: topP = 1, max_tokens: most, max_completion_tokens: alsoMost, ...extra } = given;
  if (most !== undefined && alsoMost !== undefined)
    throw new ConfigError('-S has max_tokens and max_completion_tokens, two names of one limit. Leave one out.');
  const maxTokens = most ?? alsoMost ?? settings['max-tokens'] ?? null;
  if (typeof temperature !== 'number' || !(temperature >= 0 && temperature <= 100)) throw wrong('temperature', 'a number from 0 to 100', temperature);
  if (typeof topP !== 'number' || !(topP > 0 && topP <= 1)) throw wrong('top_p', 'a number above 0 and up to 1', topP);
  if (maxTokens !== null && !(Number.isSafeInteger(maxTokens) && (maxTokens as number) > 0))
    throw wrong(alsoMost === undefined ? 'max_tokens' : 'max_completion_tokens', 'an integer from 1 up', maxTokens);
  for (const [name, value] of Object.entries(extra)) {
    if (typeof value === 'number' && !Number.isFinite(value)) throw wrong(name, 'a finite number', value);
  }
  // The name that was given is the name that is sent: it is given where a server refuses the other.
  const further = alsoMost === undefined ? extra : { ...extra, max_completion_tokens: alsoMost };
  const sampling = { temperature, topP, ...(Object.keys(further).length === 0 ? {} : { extra: further }) };
  return { sampling, maxTokens: maxTokens as number | null };
}

/** What is sent where the policy takes tokens: its route knows the limit as `max_tokens`, which the rollout sets. */
export function tokenSampling({ sampling, maxTokens }: ReadSampling): ReadSampling {
  const { max_completion_tokens: _, ...extra } = sampling.extra ?? {};
  const { temperature, topP } = sampling;
  return { sampling: { temperature, topP, ...(Object.keys(extra).length === 0 ? {} : { extra }) }, maxTokens };
}

function wrong(name: string, expected: string, value: unknown): ConfigError {
  const shown = typeof value === 'number' ? String(value) : JSON.stringify(hideSecrets(value, name));
  return new ConfigError(`Expected ${name} in -S to be ${expected}, got ${shown}`);
}
