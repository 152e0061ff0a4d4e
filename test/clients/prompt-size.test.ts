import { describe, expect, it } from 'vitest';
import { PromptSize } from '../../src/clients/prompt-size.ts';

const usage = (promptTokens: number, completionTokens = 50, cachedTokens: number | null = null) => ({ promptTokens, completionTokens, cachedTokens });

describe('PromptSize', () => {
  it('names a server that drops the beginning of a long prompt', () => {
    const size = new PromptSize('http://ollama');
    for (const tokens of [500, 2000, 3900]) size.grow(usage(tokens, 480), false);
    expect(() => size.grow(usage(3500, 50, 2040), false)).toThrow('3500');
    expect(() => size.grow(usage(2051), false)).toThrow(
      /^http:\/\/ollama read 2051 tokens of a conversation that had 3900 before: it leaves out the beginning/,
    );
  });

  it('accepts prompts without earlier thoughts, unknown counts, and cached tokens counted apart', () => {
    const size = new PromptSize('http://api');
    const sizes = [usage(1000, 900), usage(300, 10), usage(0, 0), usage(400, 10, 700)];
    expect(() => sizes.forEach((each) => size.grow(each, true))).not.toThrow();
  });
});
