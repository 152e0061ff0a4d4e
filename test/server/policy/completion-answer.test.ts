import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TokenEngine } from '../../../src/engine/engine-types.ts';
import { wireLogProbs, wirePromptLogProbs } from '../../../src/server/policy/completion-answer.ts';
import { TokenStrings } from '../../../src/server/policy/token-strings.ts';
import { type NanoServer, nanoServer } from './nano-server.ts';

let server: NanoServer;
let tokenizer: TokenEngine['tokenizer'];
beforeAll(async () => {
  server = await nanoServer();
  ({ tokenizer } = server.engine);
});
afterAll(() => server.close());

describe('wireLogProbs', () => {
  const none = new Int32Array(0);

  it('writes minus infinity as vLLM does, because JSON cannot express it', () => {
    const judged = { ids: Int32Array.of(300), logProbs: [-Infinity], alternatives: [[{ id: 301, logProb: -Infinity, rank: 1 }]] };
    const wire = wireLogProbs(judged, { strings: new TokenStrings(tokenizer), tokensAsIds: true, before: none, textOffset: 0 });
    expect(wire).toMatchObject({ token_logprobs: [-9999], top_logprobs: [{ 'token_id:300': -9999, 'token_id:301': -9999 }] });
  });

  it('keeps a token that is spelled like a property of every object', () => {
    const strings = new TokenStrings({ ...tokenizer, decode: () => '__proto__' });
    const judged = { ids: Int32Array.of(300), logProbs: [-1], alternatives: null };
    const wire = wireLogProbs(judged, { strings, tokensAsIds: false, before: none, textOffset: 0 });
    expect(JSON.stringify(wire.top_logprobs)).toBe('[{"__proto__":-1}]');
  });

  it('counts code points, and shows the sampled one of two tokens that look alike', () => {
    const ids = tokenizer.encode('🙂a', { addSpecialTokens: false });
    const alternatives = Array.from(ids, (id) => [{ id: id === 251 ? 252 : 251, logProb: -5, rank: 1 }]);
    const judged = { ids, logProbs: Array.from(ids, () => -1), alternatives };
    const wire = wireLogProbs(judged, { strings: new TokenStrings(tokenizer), tokensAsIds: false, before: none, textOffset: 10 });
    expect(wire.tokens.join('')).toBe('🙂a');
    expect(wire.tokens.at(-2)).toBe('🙂');
    expect(wire.text_offset.at(-1)).toBe(11);
    // Neither is a character by itself: both are ''.
    expect(wire.top_logprobs[0]).toEqual({ '': -1 });
  });
});

describe('wirePromptLogProbs', () => {
  it('shows a token after those that were judged before it, as vLLM does: the first of the prompt is not among them', () => {
    const lastOf = (text: string) => {
      const prompt = tokenizer.encode(text, { addSpecialTokens: false });
      const judged = Array.from(prompt, (id, i) => (i === 0 ? null : [{ id, logProb: -1, rank: 1 }]));
      return wirePromptLogProbs(prompt, judged, new TokenStrings(tokenizer)).at(-1)![prompt.at(-1)!];
    };
    expect(lastOf('a🙂')).toEqual({ logprob: -1, rank: 1, decoded_token: '🙂' });
    expect(lastOf('🙂')).toEqual({ logprob: -1, rank: 1, decoded_token: '' });
  });
});
