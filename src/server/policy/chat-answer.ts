/** Parts of the answers of `/v1/chat/completions`, as in vLLM 0.32.0. */
import type { JudgedTokens } from './completion-answer.ts';
import { byRank, type TokenStrings, wireLogProb } from './token-strings.ts';

interface ChatLogProbsOptions {
  readonly strings: TokenStrings;
  readonly tokensAsIds: boolean;
  /** Tokens sampled before these; only the last four matter. */
  readonly before: Int32Array;
  /** Number of likeliest tokens to list for each. */
  readonly top: number;
}

export function chatLogProbs({ ids, logProbs, alternatives }: JudgedTokens, { strings, tokensAsIds, before, top }: ChatLogProbsOptions) {
  const context = [...before.subarray(-4)];
  const encoder = new TextEncoder();
  const content = Array.from(ids, (id, i) => {
    const shown = (token: number, logProb: number) => {
      const text = strings.string(token, context);
      return { token: tokensAsIds ? `token_id:${token}` : text, logprob: wireLogProb(logProb), bytes: [...encoder.encode(text)] };
    };
    const likeliest = byRank(alternatives?.[i] ?? []).slice(0, top);
    const entry = { ...shown(id, logProbs[i] ?? -Infinity), top_logprobs: likeliest.map((one) => shown(one.id, one.logProb)) };
    context.push(id);
    if (context.length > 4) context.shift();
    return entry;
  });
  return { content };
}

export function chatMessage(role: string, content: string) {
  return { role, content, refusal: null, annotations: null, audio: null, function_call: null, reasoning: null };
}
