/** Log-probs in the form that Chat Completions and Responses share. */
import type { AgentRequest, AgentTurn, AgentLogProb } from '../agent-request.ts';
import { refuseSetting } from '../agent-refusal.ts';

/** A token as OpenAI writes it. */
export interface WrittenLogProb {
  readonly token: string;
  readonly logprob: number;
  /** UTF-8 of the text. */
  readonly bytes: readonly number[];
  readonly top_logprobs: readonly Omit<WrittenLogProb, 'top_logprobs'>[];
}

/** Null if the request asks for none. Throws AgentRefusal if the policy gave none. */
export function writtenLogProbs(request: AgentRequest, { logProbs }: AgentTurn): readonly WrittenLogProb[] | null {
  const { logProbs: most } = request.settings;
  if (most === undefined) return null;
  if (logProbs === undefined) return refuseSetting(request, 'logProbs', 'the policy gave none. Leave it out');
  return logProbs.map((token) => ({ ...written(token), top_logprobs: (token.top ?? []).slice(0, most).map(written) }));
}

const UTF8 = new TextEncoder();

function written({ text, logProb }: Pick<AgentLogProb, 'text' | 'logProb'>): Omit<WrittenLogProb, 'top_logprobs'> {
  return { token: text, logprob: logProb, bytes: [...UTF8.encode(text)] };
}
