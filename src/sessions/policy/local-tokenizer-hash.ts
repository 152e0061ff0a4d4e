import { TOKENIZER_PROBE_TEXT, tokenizerHash } from '../../clients/vllm-probe.ts';
import { openTokenizer } from '../../tokenizer/open-tokenizer.ts';
import { TokenizerError } from '../../tokenizer/tokenizer-error.ts';

/** Hash of the tokenizer in a model's directory, equal to that of a server of the model; null for a hub id, or if the tokenizer cannot be read. */
export async function localTokenizerHash(modelPath: string): Promise<string | null> {
  try {
    const tokenizer = await openTokenizer(modelPath);
    return tokenizerHash(tokenizer.encode(TOKENIZER_PROBE_TEXT, { addSpecialTokens: false }));
  } catch (error) {
    if (error instanceof TokenizerError) return null;
    throw error;
  }
}
