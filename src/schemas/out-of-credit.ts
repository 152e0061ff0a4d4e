/** Tells an account without credit from a rate limit. */
import type { ErrorFields } from './error-fields.ts';

/** Codes and types of OpenAI, Moonshot, DashScope and others for an account that cannot pay. */
const CREDIT_CODES =
  /^(insufficient_(quota|balance|credits?|funds)|billing_(hard_limit_reached|not_active)|exceeded_current_quota_error|arrearage|allocationquota\.freetieronly)$/i;
/**
 * Wordings of Anthropic, DeepSeek, Serper, SiliconFlow, xAI, Zhipu and others. They leave out a rate limit that more credit would raise, and "check your plan and billing
 * details", which Gemini says about a limit per minute as well.
 */
const CREDIT_WORDS =
  /(insufficient|not enough) (account )?(balance|credits?|funds)|balance is (too low|insufficient|not enough)|used all available credits|monthly spending limit|billing hard limit|check your billing details|free tier of the model has been exhausted|in good standing|key limit exceeded|余额不足|欠费/i;

export function isOutOfCredit(status: number, { codes, message }: ErrorFields): boolean {
  if (status === 402) return true;
  // MiniMax says so with a 500.
  if (status < 400 || (status > 429 && status !== 500)) return false;
  return saysOutOfCredit(codes) || CREDIT_WORDS.test(message.slice(0, 400));
}

/** One of the codes or types is that of an account that cannot pay. */
export function saysOutOfCredit(codes: readonly string[]): boolean {
  return codes.some((code) => CREDIT_CODES.test(code));
}

/** `failure`: the request, its status and the beginning of the answer. */
export function creditText(failure: string): string {
  return `The credit or quota of the API key is used up: ${failure}. Check its plan and billing.`;
}
