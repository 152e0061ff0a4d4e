/** The policy's tokenizer on this machine, from a model directory with tokenizer.json and optionally a chat template. Gives the same ids as a server of that model. */
import { ConfigError } from '../core/errors.ts';
import { LocalTokenizer } from './known-tokenizer.ts';
import { openTokenizer, type OpenTokenizerOptions } from './open-tokenizer.ts';
import { TokenizerError } from './tokenizer-error.ts';

export { LocalTokenizer } from './known-tokenizer.ts';

/**
 * Opens the tokenizer of a model directory (byte-level BPE as in Qwen and Llama 3, or BPE with byte fallback as in Gemma 3). Rejects with ConfigError if there is none that can be read.
 * @example const { ids } = await (await openLocalTokenizer('/models/Qwen2.5-3B')).encode('Who wrote Hamlet?');
 */
export async function openLocalTokenizer(directory: string, options: OpenTokenizerOptions = {}): Promise<LocalTokenizer> {
  try {
    return new LocalTokenizer(directory, await openTokenizer(directory, options));
  } catch (error) {
    throw error instanceof TokenizerError ? new ConfigError(error.message, { cause: error }) : error;
  }
}
