/** The request of `POST /v1/completions`, as vLLM 0.32.0 accepts it. */
import { object } from '../json-schema.ts';
import { kindOf } from '../kind-of.ts';
import { REFUSED_FIELDS } from './refused-fields.ts';
import { checkedFields, type Parsed, parsed, wrongShape, wrongValue } from './request-problem.ts';
import { logProbCount, type SamplingFields, samplingFields, samplingProperties } from './sampling-fields.ts';

export interface CompletionRequest extends SamplingFields {
  /** At least one; text and ids may be empty. */
  readonly prompts: readonly (string | Int32Array)[];
  readonly maxTokens: number;
  /** Return log-probs of the sampled tokens and of this many likeliest ones; null returns none. */
  readonly logProbs: number | null;
  /** Put BOS and the like before text prompts. */
  readonly addSpecialTokens: boolean;
}

const integer = samplingProperties.prompt_logprobs;
const schema = object({}, { ...samplingProperties, max_tokens: integer, logprobs: integer });

/** The names of the fields that the route reads. */
export const COMPLETION_FIELDS: readonly string[] = [...Object.keys(schema.properties), 'prompt', ...REFUSED_FIELDS];

/** vLLM's default. */
const DEFAULT_MAX_TOKENS = 16;

export function parseCompletionRequest(body: unknown): Parsed<CompletionRequest> {
  return parsed(() => {
    const fields = checkedFields(body, schema);
    const prompts = promptsOf(fields['prompt']);
    const sampling = samplingFields(fields);
    const maxTokens = fields.max_tokens ?? DEFAULT_MAX_TOKENS;
    if (maxTokens < (sampling.echo ? 0 : 1)) wrongValue('max_tokens', `max_tokens must be at least 1, got ${maxTokens}.`, maxTokens);
    return {
      ...sampling,
      prompts,
      maxTokens,
      logProbs: logProbCount('logprobs', 'sample', fields.logprobs ?? null),
      addSpecialTokens: fields.add_special_tokens ?? true,
    };
  });
}

function promptsOf(prompt: unknown): (string | Int32Array)[] {
  if (prompt === undefined || prompt === null || prompt === '') {
    wrongValue('prompt', 'Either prompt or prompt_embeds must be provided and non-empty.');
  }
  if (typeof prompt === 'string') return [prompt];
  if (!Array.isArray(prompt)) wrongShape('prompt', `text, token ids, or a list of either, got ${kindOf(prompt)}`);
  if (prompt.length === 0) wrongValue(null, 'You must pass at least one prompt');
  if (typeof prompt[0] === 'number') return [idsOf(prompt, 'prompt')];
  return prompt.map((one: unknown, i) => {
    if (typeof one === typeof prompt[0] && typeof one === 'string') return one;
    if (Array.isArray(one) && typeof prompt[0] === 'object') return idsOf(one, `prompt.${i}`);
    return wrongShape(`prompt.${i}`, `a prompt of the same kind as the others, got ${kindOf(one)}`);
  });
}

function idsOf(list: readonly unknown[], path: string): Int32Array {
  const ids = new Int32Array(list.length);
  for (const [i, id] of list.entries()) {
    if (typeof id !== 'number' || !Number.isInteger(id)) wrongShape(`${path}.${i}`, `a token id, got ${kindOf(id)}`);
    if (id < 0) wrongShape(`${path}.${i}`, `a token id of at least 0, got ${id}`);
    if (id > 2 ** 31 - 1) wrongValue(null, `Token id ${id} is out of vocabulary`);
    ids[i] = id;
  }
  return ids;
}
