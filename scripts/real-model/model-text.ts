/** A model's tokenizer for a scripted policy, so that limits of length count the model's own tokens. */
import type { TextTokenizer } from '../../src/clients/text-tokenizer.ts';
import { IncrementalText } from '../../src/tokenizer/incremental-text.ts';
import type { ModelTokenizer } from '../../src/tokenizer/tokenizer-types.ts';

/** `hash` identifies the tokenizer. Text must not spell control tokens: here they would become control tokens. */
export function modelTextTokenizer(tokenizer: ModelTokenizer, hash: string): TextTokenizer {
  const encode = (text: string) => tokenizer.encode(text, { addSpecialTokens: false });
  return {
    hash,
    lengthScale: 1,
    encode,
    encodePrompt: (text) => tokenizer.encode(text, { addSpecialTokens: true }),
    encodeSampled: (text) => {
      const ids = encode(text);
      const written = new IncrementalText(tokenizer.bytes, { skipSpecialTokens: true });
      let end = 0;
      const textEnds = Int32Array.from(ids, (id) => (end += written.push(id).length));
      return { text, ids, textEnds };
    },
    decode: (ids) => tokenizer.decode(ids, { skipSpecialTokens: true }),
  };
}
