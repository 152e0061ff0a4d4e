/** Whole and partial answers of `/v1/completions`, as in vLLM 0.32.0. vLLM's fields that this server does not use are null. */
import type { Generation, TokenLogProb } from '../../engine/engine-types.ts';
import type { CompletionRequest } from '../../schemas/policy-server/completion-request.ts';
import { type TokenStrings, wireLogProb } from './token-strings.ts';

/** Tokens with their log-probs, as parallel lists. */
export interface JudgedTokens {
  readonly ids: Int32Array;
  /** Null for the first token of a prompt. */
  readonly logProbs: ArrayLike<number | null>;
  readonly alternatives: readonly (readonly TokenLogProb[] | null)[] | null;
}

export interface WireLogProbs {
  readonly text_offset: number[];
  readonly token_logprobs: (number | null)[];
  readonly tokens: string[];
  readonly top_logprobs: (Record<string, number> | null)[];
}

interface LogProbsOptions {
  readonly strings: TokenStrings;
  readonly tokensAsIds: boolean;
  /** Tokens sampled before these; only the last four matter. */
  readonly before: Int32Array;
  /** Text offset of the first token. */
  readonly textOffset: number;
}

export function wireLogProbs(
  { ids, logProbs, alternatives }: JudgedTokens,
  { strings, tokensAsIds, before, textOffset }: LogProbsOptions,
): WireLogProbs {
  const wire: WireLogProbs = { text_offset: [], token_logprobs: [], tokens: [], top_logprobs: [] };
  const sequence = concatenated(before.subarray(-4), ids);
  const skipped = sequence.length - ids.length;
  let at = textOffset;
  for (const [i, id] of ids.entries()) {
    const context = sequence.subarray(Math.max(0, skipped + i - 4), skipped + i);
    const show = (token: number) => (tokensAsIds ? `token_id:${token}` : strings.string(token, context));
    const logProb = logProbs[i] ?? null;
    const token = show(id);
    wire.text_offset.push(at);
    wire.tokens.push(token);
    wire.token_logprobs.push(logProb === null ? null : wireLogProb(logProb));
    const others = alternatives?.[i] ?? [];
    wire.top_logprobs.push(logProb === null ? null : topLogProbs(token, logProb, others, show));
    at += codePoints(token);
  }
  return wire;
}

/** Text offset of the next token. */
export function endOfText({ text_offset: offsets, tokens }: WireLogProbs, start: number): number {
  return (offsets.at(-1) ?? start) + codePoints(tokens.at(-1) ?? '');
}

/** The sampled token comes first. Of tokens with the same text, the first is kept. */
function topLogProbs(token: string, logProb: number, others: readonly TokenLogProb[], show: (id: number) => string): Record<string, number> {
  const top = new Map([[token, wireLogProb(logProb)]]);
  for (const other of others) {
    const text = show(other.id);
    if (!top.has(text)) top.set(text, wireLogProb(other.logProb));
  }
  return Object.fromEntries(top);
}

/** `{id: {logprob, rank, decoded_token}}` of each token of the prompt, null for the first. */
export function wirePromptLogProbs(prompt: Int32Array, judged: NonNullable<Generation['promptLogProbs']>, strings: TokenStrings) {
  return judged.map((tokens, i) => {
    if (tokens === null) return null;
    // Like vLLM, ignores the first token, which has no log-prob.
    const before = prompt.subarray(Math.max(1, i - 4), i);
    const entries = tokens.map(({ id, logProb, rank }) => [
      String(id),
      { logprob: wireLogProb(logProb), rank, decoded_token: strings.string(id, before) },
    ]);
    return Object.fromEntries(entries) as Record<string, { logprob: number; rank: number; decoded_token: string }>;
  });
}

/** One finished choice. `promptText` is the prompt's text if it is echoed. */
export function completionChoice(
  request: CompletionRequest,
  {
    index,
    prompt,
    promptText,
    generation,
    strings,
  }: { index: number; prompt: Int32Array; promptText: string; generation: Generation; strings: TokenStrings },
) {
  const { echo, maxTokens, logProbs, tokensAsIds, returnTokenIds, promptLogProbs } = request;
  const isPromptOnly = echo && maxTokens === 0;
  const own: JudgedTokens = isPromptOnly ? NOTHING : generation;
  const shown = echo ? joined(judgedPrompt(prompt, generation), own) : own;
  const options = { strings, tokensAsIds, before: new Int32Array(0), textOffset: 0 };
  // Like vLLM, does not echo the text if the client requests the prompt's ids.
  const text = `${echo && !returnTokenIds ? promptText : ''}${isPromptOnly ? '' : generation.text}`;
  const judged = promptLogProbs === null && !(echo && logProbs !== null) ? null : generation.promptLogProbs;
  return {
    index,
    text,
    logprobs: logProbs === null ? null : wireLogProbs(shown, options),
    finish_reason: isPromptOnly ? 'length' : generation.finish,
    stop_reason: isPromptOnly ? null : generation.stopReason,
    token_ids: returnTokenIds ? [...own.ids] : null,
    prompt_logprobs: judged === null ? null : wirePromptLogProbs(prompt, judged, strings),
    prompt_token_ids: returnTokenIds ? [...prompt] : null,
    routed_experts: null,
  };
}

const NOTHING: JudgedTokens = { ids: new Int32Array(0), logProbs: [], alternatives: [] };

function judgedPrompt(prompt: Int32Array, { promptLogProbs }: Generation): JudgedTokens {
  const alternatives = promptLogProbs ?? Array.from(prompt, () => null);
  return { ids: prompt, logProbs: alternatives.map((tokens) => tokens?.[0]?.logProb ?? null), alternatives };
}

function joined(first: JudgedTokens, second: JudgedTokens): JudgedTokens {
  return {
    ids: concatenated(first.ids, second.ids),
    logProbs: [...Array.from(first.logProbs), ...Array.from(second.logProbs)],
    alternatives: [...(first.alternatives ?? Array.from(first.ids, () => null)), ...(second.alternatives ?? Array.from(second.ids, () => null))],
  };
}

function concatenated(first: Int32Array, second: Int32Array): Int32Array {
  const both = new Int32Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

/** Length of a string as in Python. */
function codePoints(text: string): number {
  // oxlint-disable-next-line typescript/no-misused-spread -- code points are what is wanted
  return [...text].length;
}

export interface TokenCounts {
  readonly prompt: number;
  readonly completion: number;
  /** Cached tokens of the last prompt, as in vLLM. */
  readonly cached: number;
  /** vLLM always reports 0 in chat. @default null */
  readonly created?: number | null;
}

export function wireUsage({ prompt, completion, cached, created = null }: TokenCounts) {
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    prompt_tokens_details: { cached_tokens: cached, created_cache_tokens: created, multimodal_tokens: null },
    completion_tokens_details: null,
  };
}
