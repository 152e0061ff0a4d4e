/** `POST /tokenize` and `POST /detokenize`. */
import type { Context } from 'hono';
import type { DetokenizeRequest, TokenizeRequest } from '../../schemas/policy-server/tokenize-request.ts';
import { renderChat } from './chat-route.ts';
import { PolicyRefusal } from './policy-refusal.ts';
import type { ServedEngine } from './served-engine.ts';

export function answerTokenize(c: Context, { model, prompt, returnTokenStrings }: TokenizeRequest, served: ServedEngine): Response {
  served.model(model);
  const ids = 'text' in prompt ? served.encode(prompt.text, prompt) : renderChat(prompt, served).ids;
  const strings = returnTokenStrings ? Array.from(ids, (id) => served.engine.tokenizer.spelling(id)) : null;
  return c.json({ count: ids.length, max_model_len: served.engine.maxModelLen, tokens: [...ids], token_strs: strings });
}

export function answerDetokenize(c: Context, { model, tokens }: DetokenizeRequest, served: ServedEngine): Response {
  served.model(model);
  const { vocabularySize } = served.engine.config;
  const unknown = tokens.find((id) => id >= vocabularySize);
  if (unknown !== undefined) throw new PolicyRefusal(400, `Token id ${unknown} is out of vocabulary`);
  return c.json({ prompt: served.decode(tokens) });
}
