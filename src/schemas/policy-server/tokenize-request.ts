/** The requests of `POST /tokenize` and `POST /detokenize`, as vLLM 0.32.0 accepts them. */
import { type ChatPrompt, chatPrompt, chatPromptProperties } from './chat-request.ts';
import { checkedFields, type Parsed, parsed, wrongShape } from './request-problem.ts';
import { samplingProperties } from './sampling-fields.ts';

export interface TokenizeRequest {
  /** Null means the base. */
  readonly model: string | null;
  readonly prompt: { readonly text: string; readonly addSpecialTokens: boolean } | ChatPrompt;
  readonly returnTokenStrings: boolean;
}

export interface DetokenizeRequest {
  readonly model: string | null;
  readonly tokens: Int32Array;
}

const { model, echo: flag } = samplingProperties;
const textSchema = {
  type: 'object',
  required: ['prompt'],
  properties: { model, prompt: { type: 'string' }, add_special_tokens: flag, return_token_strs: flag },
} as const;
const chatSchema = { type: 'object', required: ['messages'], properties: { model, ...chatPromptProperties, return_token_strs: flag } } as const;
const detokenizeSchema = {
  type: 'object',
  required: ['tokens'],
  properties: { model, tokens: { type: 'array', items: { type: 'integer', minimum: 0, maximum: 2 ** 31 - 1 } } },
} as const;

export function parseTokenizeRequest(body: unknown): Parsed<TokenizeRequest> {
  return parsed(() => {
    const isChat = typeof body === 'object' && body !== null && !('prompt' in body) && 'messages' in body;
    if (isChat) {
      const fields = checkedFields(body, chatSchema);
      return {
        model: fields.model ?? null,
        prompt: chatPrompt(fields),
        returnTokenStrings: fields.return_token_strs ?? false,
      };
    }
    if (typeof body === 'object' && body !== null && !Array.isArray(body) && !('prompt' in body)) wrongShape('prompt', 'this field, or messages');
    const fields = checkedFields(body, textSchema);
    const prompt = { text: fields.prompt, addSpecialTokens: fields.add_special_tokens ?? true };
    return { model: fields.model ?? null, prompt, returnTokenStrings: fields.return_token_strs ?? false };
  });
}

export function parseDetokenizeRequest(body: unknown): Parsed<DetokenizeRequest> {
  return parsed(() => {
    const fields = checkedFields(body, detokenizeSchema);
    return { model: fields.model ?? null, tokens: Int32Array.from(fields.tokens) };
  });
}
