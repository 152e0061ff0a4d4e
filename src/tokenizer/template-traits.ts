/** Finds out the features of a model's chat template, by rendering a small conversation and inspecting its text. */
import type { ToolCallFormat } from '../core/tool-calls.ts';
import type { ChatTokenizer } from './chat-tokenizer.ts';
import type { ChatTemplateKind } from './policy-tokenizer.ts';
import { isRefusal, type TemplateRequest } from './tokenizer-source.ts';

export interface TemplateTraits {
  readonly chatTemplate: ChatTemplateKind;
  /** Null if the template does not list tools, drops calls, or writes them in a format that no parser here supports. */
  readonly toolCalls: ToolCallFormat | null;
  readonly beginsWithBos: boolean;
  readonly closingTokenId: number | null;
}

const NAME = 'look_up_word';
const SHOWN = 'Finds a word in a book.';
const QUESTION = 'Which word?';
const CALL: TemplateRequest = {
  messages: [
    { role: 'user', content: QUESTION },
    {
      role: 'assistant',
      content: '',
      tool_calls: [{ id: 'call00000', type: 'function', function: { name: NAME, arguments: { word: 'heron' } } }],
    },
  ],
  tools: [
    {
      type: 'function',
      function: { name: NAME, description: SHOWN, parameters: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] } },
    },
  ],
  addGenerationPrompt: false,
};

export async function templateTraits(tokenizer: ChatTokenizer): Promise<TemplateTraits> {
  const chatTemplate = await tokenizer.chatTemplate();
  const beginsWithBos = (await tokenizer.bosIds()).length > 0;
  if (chatTemplate === null) return { chatTemplate, toolCalls: null, beginsWithBos, closingTokenId: null };
  return { chatTemplate, toolCalls: await toolCallFormat(tokenizer), beginsWithBos, closingTokenId: await tokenizer.closingToken() };
}

/** True if the template leaves tools out of the prompt, so that the model never sees them, not even through the server's chat API. False if it rejects the conversation. */
export async function dropsTools(tokenizer: ChatTokenizer): Promise<boolean> {
  try {
    return !(await tokenizer.renderedText(CALL)).includes(SHOWN);
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
}

async function toolCallFormat(tokenizer: ChatTokenizer): Promise<ToolCallFormat | null> {
  let text: string;
  try {
    text = await tokenizer.renderedText(CALL);
  } catch (error) {
    if (isRefusal(error)) return null;
    throw error;
  }
  const turn = text.slice(text.lastIndexOf(QUESTION) + QUESTION.length);
  if (!text.includes(SHOWN) || !turn.includes('heron')) return null;
  if (turn.includes(`<function=${NAME}>`)) return 'qwen3-coder';
  if (/<tool_call>\s*\{\s*"name"/.test(turn)) return 'hermes';
  return new RegExp(`\\{\\s*"name":\\s*"${NAME}",\\s*"parameters":`).test(turn) ? 'llama3' : null;
}
