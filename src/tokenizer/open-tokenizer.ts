/** The tokenizer of a Hugging Face directory on this machine. */
import { Folder } from '../files/folder.ts';
import { type OpenTokenizerOptions, readTokenizer } from './read-tokenizer.ts';
import { withinTime } from './within-time.ts';
import type { ModelTokenizer } from './tokenizer-types.ts';

export type { OpenTokenizerOptions } from './read-tokenizer.ts';

/** Rejects with TokenizerError if the directory has no tokenizer, one of another kind, or one with ids that the model does not have. */
export function openTokenizer(directory: string, options: OpenTokenizerOptions = {}): Promise<ModelTokenizer> {
  return readTokenizer(new Folder(directory), { withinTime, ...options });
}
