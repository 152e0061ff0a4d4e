/** Converts the fields of a request into jobs for the engine, one per choice. */
import type { SamplingFields } from '../../schemas/policy-server/sampling-fields.ts';
import { PolicyRefusal, valueRefusal } from './policy-refusal.ts';
import type { GenerationJob, ServedEngine, ServedModel } from './served-engine.ts';
import { countText } from '../../core/count-text.ts';

export interface PlanOptions {
  readonly model: ServedModel;
  readonly fields: SamplingFields;
  /** `jobsFor` checks their length. */
  readonly prompts: readonly Int32Array[];
  /** Null: as many as the context length leaves. */
  readonly maxTokens: number | null;
  readonly logProbs: number | null;
  readonly promptLogProbs: number | null;
}

/** The n choices of the first prompt, then those of the next. Throws a refusal if one is invalid. */
export function jobsFor(served: ServedEngine, { model, fields, prompts, maxTokens, logProbs, promptLogProbs }: PlanOptions): GenerationJob[] {
  const { n, seed, minTokens } = fields;
  checkChoices(served, prompts.length, n);
  const sampling = samplingOf(served, fields);
  const { vocabularySize } = served.engine.config;
  // One list for all choices: the engine holds it once.
  const allowedTokenIds = fields.allowedTokenIds === null ? null : eachOnce(fields.allowedTokenIds, vocabularySize);
  const stop = {
    strings: fields.stop,
    includeString: fields.includeStopString,
    tokenIds: stopTokenIds(fields.stopTokenIds),
    ignoreEnd: fields.ignoreEnd,
    minTokens,
  };
  const judged = { prompt: 0, sampled: 0 };
  const jobs = prompts.flatMap((prompt) => {
    served.checkPrompt(prompt);
    const room = served.engine.maxModelLen - prompt.length;
    const most = Math.min(maxTokens ?? room, room);
    if (minTokens > most) {
      throw valueRefusal('min_tokens', `min_tokens must be less than or equal to max_tokens=${most}, got ${minTokens}.`, minTokens);
    }
    judged.prompt += n * prompt.length * eachWith(promptLogProbs);
    judged.sampled += n * most * eachWith(logProbs);
    return Array.from({ length: n }, (_, choice) => ({
      prompt,
      adapter: model.adapter,
      maxTokens: most,
      // As in vLLM, the choices of a prompt have different seeds, but the prompts of a request share them.
      sampling: { ...sampling, seed: seed === null ? null : seed + choice },
      stop,
      skipSpecialTokens: fields.skipSpecialTokens,
      logProbs,
      promptLogProbs,
      logProbsMode: served.options.logProbsMode,
      allowedTokenIds,
      cacheSalt: served.cacheSalt(fields.cacheSalt),
    }));
  });
  checkLogProbs(served, judged);
  return jobs;
}

/** Log-probs of one token: its own and its alternatives'. */
function eachWith(alternatives: number | null): number {
  return alternatives === null ? 0 : 1 + alternatives;
}

/** An answer is held in memory as objects, then as JSON: hundreds of bytes per log-prob. */
function checkLogProbs(served: ServedEngine, { prompt, sampled }: { readonly prompt: number; readonly sampled: number }): void {
  const { maxLogProbs } = served.options.limits;
  if (prompt + sampled <= maxLogProbs) return;
  const text = `A request may have at most ${countText(maxLogProbs)} log-probs (choices × tokens × (1 + alternatives)), got up to ${countText(prompt)} of prompts and ${countText(sampled)} of generated tokens; send several requests, or ask for fewer alternatives or tokens`;
  throw new PolicyRefusal(400, text, { param: prompt > sampled ? 'prompt_logprobs' : 'logprobs' });
}

/** Removes repetitions. An id outside the vocabulary is kept, for the engine to refuse, and ends the list, so that the list stays bounded by the vocabulary. */
function eachOnce(ids: readonly number[], vocabularySize: number): readonly number[] {
  const seen = new Uint8Array(vocabularySize);
  const distinct: number[] = [];
  for (const id of ids) {
    if (seen[id] === 1) continue;
    distinct.push(id);
    if (id >= vocabularySize) break;
    seen[id] = 1;
  }
  return distinct;
}

/** Each choice has its own copy and searches it after every token. vLLM has no such limit. */
const MAX_STOP_TOKENS = 1024;

function stopTokenIds(ids: readonly number[]): readonly number[] {
  const distinct = new Set<number>();
  for (const id of ids) {
    distinct.add(id);
    if (distinct.size > MAX_STOP_TOKENS) {
      throw new PolicyRefusal(400, `stop_token_ids must hold at most ${countText(MAX_STOP_TOKENS)} different ids, got ${countText(ids.length)}.`, {
        param: 'stop_token_ids',
      });
    }
  }
  return [...distinct];
}

/** Call this before tokenising anything. */
export function checkChoices(served: ServedEngine, prompts: number, n: number): void {
  const { maxChoices } = served.options.limits;
  if (prompts * n <= maxChoices) return;
  const text = `A request may have at most ${countText(maxChoices)} choices (prompts × n), got ${countText(prompts)} × ${countText(n)}; send several requests`;
  throw new PolicyRefusal(400, text, { param: prompts > 1 ? 'prompt' : 'n' });
}

function samplingOf(served: ServedEngine, { temperature, topP, topK, minP, n }: SamplingFields): Omit<GenerationJob['sampling'], 'seed'> {
  const { defaults } = served.options;
  const used = {
    temperature: temperature ?? defaults.temperature,
    topP: topP ?? defaults.topP,
    topK: topK ?? defaults.topK,
    minP: minP ?? defaults.minP,
  };
  if (used.temperature === 0 && n > 1) throw valueRefusal('n', `n must be 1 when using greedy sampling, got ${n}.`, n);
  return used;
}
