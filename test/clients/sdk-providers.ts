/** Models of the AI SDK's own providers, by package and wire. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { LanguageModel } from '../../src/clients/language-model.ts';

export const KEY = 'sk-a-very-secret-key-0123';

export const PROVIDERS: Readonly<Record<string, (url: string) => LanguageModel>> = {
  '@ai-sdk/openai-compatible': (url) => createOpenAICompatible({ name: 'wires', baseURL: `${url}/v1`, apiKey: KEY, includeUsage: true })('m'),
  '@ai-sdk/openai chat': (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).chat('m'),
  '@ai-sdk/openai responses': (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).responses('m'),
  '@ai-sdk/anthropic': (url) => createAnthropic({ baseURL: `${url}/v1`, apiKey: KEY })('m'),
};
