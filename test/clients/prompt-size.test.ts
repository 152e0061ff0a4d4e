import { describe, expect, it } from 'vitest';
import { PromptSize } from '../../src/clients/prompt-size.ts';

const usage = (promptTokens: number, completionTokens = 50, cachedTokens: number | null = null) => ({ promptTokens, completionTokens, cachedTokens });

const first = { hasThoughts: false, messages: 1 };

describe('PromptSize', () => {
  it('names a server that drops the beginning of a long prompt', () => {
    const size = new PromptSize('http://ollama');
    for (const tokens of [500, 2000, 3900]) size.grow(usage(tokens, 480), first);
    expect(() => size.grow(usage(3500, 50, 2040), first)).toThrow('3500');
    expect(() => size.grow(usage(2051), first)).toThrow(
      /^http:\/\/ollama read 2051 tokens of a conversation that had 3900 before: it leaves out the beginning/,
    );
  });

  it('remarks on a count that stays although the conversation grew, unless the server counts nothing', () => {
    const remarks = (tokens: readonly number[], messages: readonly number[]) => {
      const size = new PromptSize('http://ollama');
      return tokens.map((each, i) => size.grow(usage(each), { hasThoughts: false, messages: messages[i]! }));
    };
    expect(remarks([2048, 2048], [1, 3])).toEqual([null, expect.stringMatching(/^http:\/\/ollama read 2048 tokens .* before and after it grew/)]);
    expect(remarks([2048, 2048], [3, 3])).toEqual([null, null]);
    expect(remarks([10, 10], [1, 3])).toEqual([null, null]);
    expect(remarks([2048, 2100], [1, 3])).toEqual([null, null]);
  });

  it('accepts prompts without earlier thoughts, unknown counts, and cached tokens counted apart', () => {
    const size = new PromptSize('http://api');
    const sizes = [usage(1000, 900), usage(300, 10), usage(0, 0), usage(400, 10, 700)];
    expect(() => sizes.forEach((each) => size.grow(each, { hasThoughts: true, messages: 1 }))).not.toThrow();
  });
});
