import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PromptBytes, withoutEcho } from '../../src/clients/vllm-tokens-wire.ts';
import { PrefixBreakError } from '../../src/core/errors.ts';

const idArray = fc.array(fc.integer({ min: 0, max: 2 ** 31 - 1 }), { maxLength: 600 });

describe('PromptBytes', () => {
  it('is the JSON of fields and prompt after every turn {any ids, any growth, fields of any size}', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(idArray, fc.string({ maxLength: 1500 })), { minLength: 1, maxLength: 6 }), (turns) => {
        const bytes = new PromptBytes();
        let prompt: number[] = [];
        for (const [added, stop] of turns) {
          prompt = [...prompt, ...added];
          bytes.extendTo(Int32Array.from(prompt), false);
          const fields = { model: 'm', stop };
          expect(JSON.parse(bytes.body(fields).toString())).toEqual({ ...fields, prompt });
          expect(bytes.digits.toString()).toBe(prompt.join(','));
        }
      }),
      { numRuns: 60 },
    );
  });

  it('starts over only with a prompt that was cut', () => {
    const bytes = new PromptBytes();
    bytes.extendTo(Int32Array.of(1, 2, 3), false);
    expect(() => bytes.extendTo(Int32Array.of(2, 3), false)).toThrow(PrefixBreakError);
    expect(bytes.digits.toString()).toBe('1,2,3');
    bytes.extendTo(Int32Array.of(2, 3), true);
    expect(bytes.digits.toString()).toBe('2,3');
  });
});

describe('withoutEcho', () => {
  const answer = (prompt: readonly number[], text: string) =>
    Buffer.from(JSON.stringify({ choices: [{ text, token_ids: [1], prompt_token_ids: prompt, x: null }] }));

  it('leaves an empty list where the prompt was, whatever the text spells {any text and ids}', () => {
    const hostile = fc.oneof(fc.string(), fc.constantFrom('"prompt_token_ids":[1,2]', '\\"prompt_token_ids":[', '"prompt_token_ids":[],'));
    fc.assert(
      fc.property(idArray, hostile, (prompt, text) => {
        const rest = withoutEcho(answer(prompt, text), Buffer.from(prompt.join(',')));
        expect(rest.isEcho).toBe(true);
        expect(JSON.parse(rest.text)).toEqual({ choices: [{ text, token_ids: [1], prompt_token_ids: [], x: null }] });
      }),
      { numRuns: 100 },
    );
  });

  it('keeps the answer whole when the prompt in it is another, a longer, a shorter or none', () => {
    for (const echoed of [[1, 2, 4], [1, 2, 3, 4], [1, 2], [], [1, 2, 31]]) {
      const { isEcho, text } = withoutEcho(answer(echoed, 'a'), Buffer.from('1,2,3'));
      expect([isEcho, text]).toEqual([false, answer(echoed, 'a').toString()]);
    }
    expect(withoutEcho(Buffer.from('{}'), Buffer.from('1'))).toEqual({ text: '{}', isEcho: false });
  });
});
