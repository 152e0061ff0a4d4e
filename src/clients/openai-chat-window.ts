/** Decides what a chat server means if it calls a prompt too long. A prompt that really is too long ends its rollout; a wrong setting fails the rollout. */
import { PolicyError, type PromptTooLongError } from '../core/errors.ts';
import { contentImages, contentText, type Message } from '../core/message.ts';
import { wireTools } from './openai-chat-messages.ts';
import { LIMIT_TOO_LARGE, promptFits } from './prompt-length-error.ts';
import type { GenerateRequest } from './policy-client.ts';

type ChatRequest = GenerateRequest<readonly Message[]>;

/** Allowance for the additions of a chat template: roles and, in some, a system prompt. */
const TEMPLATE_TOKENS = 256;

/** Returns the error itself, or a PolicyError if a first prompt fits the reported window or only the limit of new tokens does not fit. */
export function tooLong(error: PromptTooLongError, request: ChatRequest, maxModelLen: number | null): PolicyError {
  if (request.prompt.some(({ role }) => role === 'assistant')) return error;
  const options = { cause: error, status: error.status ?? 400 };
  if (/: 4(00|13)$/.test(error.message))
    return new PolicyError(`The policy server rejected a first prompt without a reason: ${error.message}`, options);
  if (fitsWindow(request, maxModelLen))
    return new PolicyError(
      `The policy server reports a window of ${maxModelLen} tokens but rejected a first prompt that fits: ${error.message}. Check the server's window and -t`,
      options,
    );
  if (!LIMIT_TOO_LARGE.test(error.message) && !promptFits(error.message)) return error;
  const limit = request.maxNewTokens === null ? 'the requested number of' : String(request.maxNewTokens);
  return new PolicyError(`The policy server has no room for ${limit} new tokens after a first prompt: ${error.message}. Lower -t`, options);
}

/** True if the prompt fits under any tokenizer: a token has at least one byte. The tokens of an image are unknown. */
function fitsWindow({ prompt, tools = [] }: ChatRequest, maxModelLen: number | null): boolean {
  if (maxModelLen === null || prompt.some(({ content }) => contentImages(content).length > 0)) return false;
  const toolBytes = tools.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(wireTools(tools)));
  return prompt.reduce((sum, { content }) => sum + Buffer.byteLength(contentText(content)), TEMPLATE_TOKENS + toolBytes) < maxModelLen;
}
