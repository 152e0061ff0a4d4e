/** The requests of `POST /tokenize` and `POST /detokenize`, as vLLM 0.32.0 accepts them. */
import { isObject } from '../is-object.ts';
import { flagOrNull, object, text, tokenIds } from '../json-schema.ts';
import { type ChatPrompt, chatPrompt, chatPromptProperties, messages } from './chat-request.ts';
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

const { model } = samplingProperties;
const textSchema = object({ prompt: text }, { model, add_special_tokens: flagOrNull, return_token_strs: flagOrNull });
const chatSchema = object({ messages }, { model, ...chatPromptProperties, return_token_strs: flagOrNull });
const detokenizeSchema = object({ tokens: tokenIds }, { model });

export function parseTokenizeRequest(body: unknown): Parsed<TokenizeRequest> {
  return parsed(() => {
    const hasPrompt = !isObject(body) || 'prompt' in body;
    if (!hasPrompt && 'messages' in body) {
      const fields = checkedFields(body, chatSchema);
      return {
        model: fields.model ?? null,
        prompt: chatPrompt(fields),
        returnTokenStrings: fields.return_token_strs ?? false,
      };
    }
    if (!hasPrompt) wrongShape('prompt', 'this field, or messages');
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
