import { TOKENIZER_PROBE_TEXT, tokenizerHash } from '../../clients/vllm-probe.ts';
import { openTokenizer } from '../../tokenizer/open-tokenizer.ts';
import { TokenizerError } from '../../tokenizer/tokenizer-error.ts';

/** What identifies the tokenizer in a model's directory, as a server of the model gives it; null for a hub id, or for one that cannot be read here. */
export async function localTokenizerHash(modelPath: string): Promise<string | null> {
  try {
    const tokenizer = await openTokenizer(modelPath);
    return tokenizerHash(tokenizer.encode(TOKENIZER_PROBE_TEXT, { addSpecialTokens: false }));
  } catch (error) {
    if (error instanceof TokenizerError) return null;
    throw error;
  }
}
