/**
 * The tokenizer of a vLLM server, over HTTP: its chat template and its vocabulary.
 *
 * No route of vLLM lists the control tokens, so an id whose spelling looks like a tag is tried once: a completion that may only sample a control
 * token has the token's string but an empty text.
 */
import { PolicyError } from '../core/errors.ts';
import { VllmCompletionShape, VllmDetokenizeShape, VllmTokenizeShape } from '../schemas/vllm.ts';
import { ChatTokenizer } from '../tokenizer/chat-tokenizer.ts';
import { type TokenizerFacts, TokenizerMemory } from '../tokenizer/tokenizer-memory.ts';
import type { TemplateMessage } from '../tokenizer/template-messages.ts';
import type { TemplateRequest, TokenizedText, TokenizerSource } from '../tokenizer/tokenizer-source.ts';
import type { VllmServer } from './vllm-server.ts';

/** The server, model and signal of tokenizer requests. */
export interface TokenizerCall {
  readonly server: VllmServer;
  readonly model: string;
  readonly signal: AbortSignal;
}

/** Messages of vLLM and transformers for a tokenizer without a template, as opposed to a template that rejects a conversation. */
const NO_TEMPLATE = /default chat template is no longer allowed|must provide a chat template|chat_template is not set|no chat template/i;

/** One tokenizer, shared by any number of servers. */
export class VllmTokenizer {
  readonly #memory: TokenizerMemory;

  constructor(facts: TokenizerFacts = {}) {
    this.#memory = new TokenizerMemory(facts);
  }

  at(call: TokenizerCall): ChatTokenizer {
    return new ChatTokenizer(new VllmTokenizerSource(call), this.#memory);
  }
}

class VllmTokenizerSource implements TokenizerSource {
  readonly #call: TokenizerCall;

  constructor(call: TokenizerCall) {
    this.#call = call;
  }

  get name(): string {
    return this.#call.server.url;
  }

  async tokenize(text: string, { addSpecialTokens }: { readonly addSpecialTokens: boolean }): Promise<TokenizedText> {
    const { server, model, signal } = this.#call;
    const fields = { model, prompt: text, add_special_tokens: addSpecialTokens, return_token_strs: true };
    const { tokens, token_strs: spellings } = await server.post('/tokenize', fields, VllmTokenizeShape, signal);
    if (spellings?.length === tokens.length) return { ids: tokens, spellings };
    throw new PolicyError(
      `${server.where('/tokenize')} returned strings for ${spellings?.length ?? 'none'} of ${tokens.length} tokens. Check that it is a vLLM server.`,
    );
  }

  async detokenize(ids: readonly number[]): Promise<string> {
    const { server, model, signal } = this.#call;
    return (await server.post('/detokenize', { model, tokens: ids }, VllmDetokenizeShape, signal)).prompt;
  }

  /** Forces the server to sample this id: a control token has an empty text. For servers that cannot force a token, the spelling decides. */
  async isControl(id: number, spelling: string): Promise<boolean> {
    const { server, model, signal } = this.#call;
    const fields = { model, prompt: [id], max_tokens: 1, temperature: 0, logprobs: 0, return_token_ids: true, allowed_token_ids: [id] };
    try {
      const [choice] = (await server.post('/v1/completions', fields, VllmCompletionShape, signal)).choices;
      if (choice?.token_ids[0] === id) return choice.text === '';
    } catch (error) {
      if (!(error instanceof PolicyError) || error.status !== 400) throw error;
    }
    return /^<[|｜].*[|｜]>$|^<\/?s>$|^\[\/?[A-Z_]+\]$/s.test(spelling);
  }

  async renderTemplate({ messages, tools, variables = {}, addGenerationPrompt }: TemplateRequest): Promise<readonly number[] | null> {
    const { server, model, signal } = this.#call;
    const fields = {
      model,
      messages: messages.map(wireMessage),
      ...(tools.length === 0 ? {} : { tools }),
      ...(Object.keys(variables).length === 0 ? {} : { chat_template_kwargs: variables }),
      add_generation_prompt: addGenerationPrompt,
      add_special_tokens: false,
    };
    try {
      return (await server.post('/tokenize', fields, VllmTokenizeShape, signal)).tokens;
    } catch (error) {
      if (!(error instanceof PolicyError) || error.status !== 400) throw error;
      if (NO_TEMPLATE.test(error.message)) return null;
      throw new PolicyError(`The model's chat template rejected the conversation: ${error.message}`, { cause: error, status: 400 });
    }
  }
}

/**
 * Arguments are sent as JSON strings; the server parses them before it renders. Older servers read thoughts as `reasoning_content`; this route of newer ones reads them as `reasoning`
 * alone, and gives them to the template under both names.
 */
function wireMessage({ tool_calls: calls, reasoning_content: thoughts, ...message }: TemplateMessage): Record<string, unknown> {
  const written = calls?.map((call) => ({ ...call, function: { ...call.function, arguments: JSON.stringify(call.function.arguments) } }));
  return {
    ...message,
    ...(thoughts === undefined ? {} : { reasoning: thoughts, reasoning_content: thoughts }),
    ...(written === undefined ? {} : { tool_calls: written }),
  };
}
