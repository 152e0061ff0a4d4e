import { describe, expect, it } from 'vitest';
import { PromptTooLongError } from '../../src/core/errors.ts';
import { unplayedText, widerWindow } from '../../src/rollouts/unplayed-text.ts';

const TOO_LONG = new PromptTooLongError('The prompt has 9 tokens, and the window 8');
const SERVER = { kind: 'tokens', maxModelLen: 8 } as const;
const API = { kind: 'chat', maxModelLen: null } as const;

describe('widerWindow', () => {
  it('names the flag of a server that has one, and no flag for the embedded engine or an API', () => {
    expect(widerWindow(SERVER)).toBe('Serve the model with a larger window (--max-model-len)');
    expect(widerWindow({ kind: 'chat', maxModelLen: 8 })).toContain('--max-model-len');
    for (const policy of [{ ...SERVER, isEmbedded: true }, API]) {
      expect(widerWindow(policy)).toMatch(/^Use a model with a larger window/);
      expect(widerWindow(policy)).not.toContain('--max-model-len');
    }
  });
});

describe('unplayedText', () => {
  it('gives the remedy of the policy, whether its server refused the prompt or its window was known', () => {
    const transcript = { tokens: { length: 9 }, limits: { responseTokens: 1, observationTokens: 1, contextTokens: 99, windowTokens: 8 } };
    for (const refusal of [TOO_LONG, null]) {
      expect(unplayedText({ refusal, transcript, policy: SERVER })).toMatch(
        /window 8\. Serve the model with a larger window \(--max-model-len\), or shorten/,
      );
      expect(unplayedText({ refusal, transcript, policy: { ...SERVER, isEmbedded: true } })).toMatch(
        /window 8\. Use a model .* where these are smaller, or shorten/,
      );
    }
  });
});
