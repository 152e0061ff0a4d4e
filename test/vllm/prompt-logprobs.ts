/**
 * The server's own judgement of tokens that it sampled earlier: the strongest check that a rollout is what the policy really said. Ask one at
 * a time and while nothing else runs: with LoRA on, vLLM's CPU build dies of prompt_logprobs in a batch.
 */

export interface RecordedTokens {
  readonly ids: ArrayLike<number>;
  /** 1 on sampled tokens. */
  readonly mask: ArrayLike<number>;
  /** What was recorded while sampling; read only where the mask is 1. */
  readonly logProbs: ArrayLike<number | null>;
}

/** Log-prob of each token given those before it. [T]; null for the first. */
async function promptLogProbs(baseUrl: string, model: string, ids: ArrayLike<number>): Promise<(number | null)[]> {
  const response = await fetch(`${baseUrl.replace(/\/+$/, '')}/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, prompt: Array.from(ids), max_tokens: 1, temperature: 0, prompt_logprobs: 0 }),
  });
  if (!response.ok) throw new Error(`Expected prompt_logprobs, got ${response.status} ${await response.text()}`);
  const answer = (await response.json()) as { choices: [{ prompt_logprobs: (Record<string, { logprob: number }> | null)[] }] };
  return answer.choices[0].prompt_logprobs.map((entry, i) => entry?.[String(ids[i])]?.logprob ?? null);
}

/** Largest difference between recorded and recomputed log-probs where the mask is 1, and how many tokens that were. */
export async function largestLogProbError(baseUrl: string, model: string, rollout: RecordedTokens): Promise<{ error: number; tokens: number }> {
  const judged = await promptLogProbs(baseUrl, model, rollout.ids);
  let error = 0;
  let tokens = 0;
  for (let i = 0; i < rollout.ids.length; i++) {
    if (rollout.mask[i] !== 1) continue;
    tokens += 1;
    // NaN stays: Math.max passes it on, and no bound holds for it.
    error = Math.max(error, Math.abs((judged[i] ?? NaN) - (rollout.logProbs[i] ?? NaN)));
  }
  return { error, tokens };
}
