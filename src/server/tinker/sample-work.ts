/** A sampling request, checked and carried out: as many samples as it wants of one prompt. */
import type { XStatic } from 'typebox/schema';
import type { TokenLogProb } from '../../engine/engine-types.ts';
import type { sampleRequestSchema } from '../../schemas/tinker/samples.ts';
import { NO_LOG_PROB, type Samples } from '../../tinker/wire/samples.ts';
import type { TinkerCompute, TinkerSampling } from './tinker-compute.ts';
import { TinkerRefusal } from './tinker-refusal.ts';

type SampleRequest = XStatic<typeof sampleRequestSchema>;
/** The likeliest tokens of each place, as samples have them. */
type Likeliest = NonNullable<Samples['promptLikeliest']>;

export interface SampleWork {
  readonly count: number;
  readonly request: Omit<TinkerSampling, 'adapter' | 'signal' | 'seed'>;
  readonly seed: number | null;
}

const [MOST_SAMPLES, MOST_LIKELIEST] = [1024, 20] as const;
/** What would change the result, and is not done here. */
const REFUSED = ['target_prompt_logprobs', 'prompt_alt_tokens_k', 'prompt_logprobs_last_n'] as const;

/** Throws TinkerRefusal. */
export function sampleWork(body: SampleRequest): SampleWork {
  const { prompt, sampling_params: params, num_samples: samples = 1 } = body;
  const strange = REFUSED.find((name) => (body[name] ?? 0) !== 0);
  if (strange !== undefined) throw new TinkerRefusal(400, `This server has no ${strange}; leave it out`);
  if (samples > MOST_SAMPLES) throw new TinkerRefusal(400, `num_samples must be at most ${MOST_SAMPLES}, got ${samples}`);
  const ids: number[] = [];
  for (const [i, { type, tokens }] of prompt.chunks.entries()) {
    if (type !== 'encoded_text')
      throw new TinkerRefusal(400, `prompt.chunks[${i}] is ${JSON.stringify(type.slice(0, 40))}, and this model reads encoded_text only`);
    if (tokens === undefined) throw new TinkerRefusal(400, `prompt.chunks[${i}] must have the key "tokens"`);
    for (const id of tokens) ids.push(id);
  }
  if (ids.length === 0) throw new TinkerRefusal(400, 'The prompt must have at least one token');
  const promptLikeliest = likeliest('topk_prompt_logprobs', body.topk_prompt_logprobs);
  return {
    count: samples,
    seed: params.seed ?? null,
    request: {
      prompt: Int32Array.from(ids),
      maxTokens: params.max_tokens ?? null,
      temperature: within('temperature', params.temperature ?? 1, 0, 2),
      topP: within('top_p', params.top_p ?? 1, 0, 1),
      topK: params.top_k ?? -1,
      stop: stopOf(params.stop),
      likeliest: likeliest('topk_sample_logprobs', body.topk_sample_logprobs),
      promptLikeliest: body.prompt_logprobs === true || promptLikeliest > 0 ? promptLikeliest : null,
    },
  };
}

/** Samples of one prompt with the same settings; each has a seed of its own. */
export async function samplesOf(work: SampleWork, compute: TinkerCompute, adapter: string | null, signal: AbortSignal): Promise<Samples> {
  const { count, seed, request } = work;
  // The prompt is judged once.
  const one = (k: number) =>
    compute.sample({ ...request, ...(k > 0 ? { promptLikeliest: null } : {}), adapter, seed: seed === null ? null : seed + k, signal });
  const sampled = await Promise.all(Array.from({ length: count }, (_, k) => one(k)));
  const { promptRows, cachedTokens } = sampled[0]!;
  return {
    sequences: sampled.map(({ stopReason, tokens, logProbs, alternatives }) => ({
      stopReason,
      tokens,
      logProbs,
      likeliest: request.likeliest === 0 || alternatives === null ? null : likeliestOf(alternatives, request.likeliest),
    })),
    promptLogProbs: promptRows === null ? null : Float32Array.from(promptRows, (row) => row?.[0]!.logProb ?? NaN),
    promptLikeliest: promptRows === null || !request.promptLikeliest ? null : likeliestOf(promptRows, request.promptLikeliest),
    targetLogProbs: null,
    cachedTokens,
  };
}

/** Null is the model's own end, an empty list none at all. Throws TinkerRefusal. */
function stopOf(stop: SampleRequest['sampling_params']['stop']): TinkerSampling['stop'] {
  const given = stop === null || stop === undefined ? [] : typeof stop === 'string' ? [stop] : stop;
  const strings = given.filter((each) => typeof each === 'string');
  const tokenIds = given.filter((each) => typeof each === 'number');
  if (strings.some((each) => each === '')) throw new TinkerRefusal(400, 'A stop string must not be empty');
  return { strings, tokenIds, ignoresEnd: Array.isArray(stop) && given.length === 0 };
}

function likeliest(name: string, value: number | null | undefined): number {
  const asked = value ?? 0;
  if (asked > MOST_LIKELIEST) throw new TinkerRefusal(400, `${name} must be at most ${MOST_LIKELIEST}, got ${asked}`);
  return asked;
}

function within(name: string, value: number, from: number, to: number): number {
  if (value >= from && value <= to) return value;
  throw new TinkerRefusal(400, `${name} must be from ${from} to ${to}, got ${value}`);
}

function likeliestOf(rows: readonly (readonly TokenLogProb[] | null)[], k: number): Likeliest {
  const [ids, logProbs] = [new Int32Array(rows.length * k), new Float32Array(rows.length * k).fill(NO_LOG_PROB)];
  for (const [at, row] of rows.entries()) {
    // The token itself comes first, and may be among the likeliest again.
    for (const { id, logProb, rank } of row ?? []) {
      if (rank > k) continue;
      ids[at * k + rank - 1] = id;
      logProbs[at * k + rank - 1] = logProb;
    }
  }
  return { k, ids, logProbs };
}
