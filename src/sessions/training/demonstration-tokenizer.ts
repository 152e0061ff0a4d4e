/** Supervised rows are tokenised on this machine where no server is needed, or none has started yet. */
import type { TurnFormat } from '../../core/environment.ts';
import type { RenderedTokens } from '../../core/message.ts';
import { openLocalTokenizer } from '../../tokenizer/local-tokenizer.ts';
import type { EncodedText } from '../../tokenizer/policy-tokenizer.ts';
import type { DemonstrationTokenizer } from '../../trainer/sources/demonstration.ts';
import { localTokenizerHash } from '../policy/local-tokenizer-hash.ts';

/** Tokenises supervised rows on this machine, with the tokenizer in a model's directory. Rejects with ConfigError if it cannot be read. */
export async function openDemonstrationTokenizer(path: string, turnFormat: TurnFormat): Promise<DemonstrationTokenizer> {
  const tokenizer = await openLocalTokenizer(path);
  return {
    render: async (messages, options) => rendered(await tokenizer.render(messages, options)),
    renderNext: async (history, next, options) => rendered(await tokenizer.renderNext(history, next, options)),
    encode: async (text) => (await tokenizer.encode(text)).ids,
    closingTokenId: await tokenizer.closingToken(),
    tokenizerHash: await localTokenizerHash(path),
    turnFormat,
  };
}

function rendered({ images = [], ...encoded }: EncodedText): RenderedTokens {
  return { ...encoded, images };
}
