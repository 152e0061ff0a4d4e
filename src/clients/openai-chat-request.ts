/** Builds the requests of chat APIs: only what the user or the environment set, without the fields that the server has rejected. */
import type { ChatCompletionCreateParamsNonStreaming } from 'openai/resources/chat/completions';
import { ConfigError } from '../core/errors.ts';
import type { ImageStore, Message } from '../core/message.ts';
import { wireMessages, wireTools } from './openai-chat-messages.ts';
import type { GenerateRequest } from './policy-client.ts';
import type { RejectedFields } from './rejected-fields.ts';

export type ChatBody = ChatCompletionCreateParamsNonStreaming;

/** Fields that would change the format of the response. */
const OWNED_FIELDS = ['messages', 'model', 'n', 'stream', 'stream_options'];

/**
 * The request's JSON. `sampling.extra` overrides the other fields; if it has `max_completion_tokens`, `max_tokens` is not sent. Throws ConfigError if it has a field
 * that the client sets itself.
 */
export async function chatBody(
  model: string,
  { prompt, sampling, maxNewTokens, stop, tools = [], prefill }: GenerateRequest<readonly Message[]>,
  { rejected, images = null }: { readonly rejected?: RejectedFields; readonly images?: ImageStore | null } = {},
): Promise<ChatBody> {
  const { temperature, topP, extra = {}, leaveOut = [] } = sampling;
  const owned = OWNED_FIELDS.find((field) => field in extra);
  if (owned !== undefined) throw new ConfigError(`The sampling argument ${owned} is set by the client itself. Leave out ${OWNED_FIELDS.join(', ')}.`);
  const limit = maxNewTokens === null || 'max_completion_tokens' in extra ? {} : { [rejected?.limitField ?? 'max_tokens']: maxNewTokens };
  const messages = await wireMessages(prefill === undefined ? prompt : [...prompt, { role: 'assistant', content: prefill }], images);
  const body: ChatBody = {
    model,
    messages,
    ...(temperature === null ? {} : { temperature }),
    ...(topP === null ? {} : { top_p: topP }),
    ...limit,
    ...(stop.length > 0 ? { stop: [...stop] } : {}),
    ...(tools.length > 0 ? { tools: wireTools(tools) } : {}),
    // vLLM's fields for continuing the last message.
    ...(prefill === undefined ? {} : { add_generation_prompt: false, continue_final_message: true }),
    ...extra,
  };
  for (const name of leaveOut) delete (body as unknown as Record<string, unknown>)[name];
  return rejected?.without(body) ?? body;
}
