import type { TurnFormat } from '../../core/environment.ts';
import { openLocalTokenizer } from '../../tokenizer/local-tokenizer.ts';
import type { DemonstrationTokenizer } from '../../trainer/sources/demonstration.ts';
import { localTokenizerHash } from './local-tokenizer-hash.ts';

/** Tokenises supervised rows on this machine, with the tokenizer in a model's directory. Rejects with ConfigError if it cannot be read. */
export async function openDemonstrationTokenizer(path: string, turnFormat: TurnFormat): Promise<DemonstrationTokenizer> {
  const tokenizer = await openLocalTokenizer(path);
  return {
    render: async (messages, options) => (await tokenizer.render(messages, options)).ids,
    renderNext: async (history, next, options) => (await tokenizer.renderNext(history, next, options)).ids,
    encode: async (text) => (await tokenizer.encode(text)).ids,
    closingTokenId: await tokenizer.closingToken(),
    tokenizerHash: await localTokenizerHash(path),
    turnFormat,
  };
}
