import { ConfigError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { openTokenizer } from '../../tokenizer/open-tokenizer.ts';
import { TokenizerError } from '../../tokenizer/tokenizer-error.ts';
import type { TokenKinds } from '../../trainer/credit.ts';
import { tokenKinds } from '../../trainer/credit/token-kinds.ts';
import { modelFolder } from '../policy/model-folder.ts';

/** For a loss or a credit that needs the kinds of tokens. Throws ConfigError if the model's tokenizer is not on this machine. */
export async function openTokenKinds({ model }: TrainingConfig, variables: Readonly<Record<string, string | undefined>>): Promise<TokenKinds> {
  try {
    const { bytes, starts } = (await openTokenizer(modelFolder(model.path, variables))).bytes;
    const spelling = (id: number) => Buffer.from(bytes.subarray(starts[id] ?? 0, starts[id + 1] ?? 0)).toString('latin1');
    return (trajectory) => tokenKinds(trajectory, spelling);
  } catch (cause) {
    if (!(cause instanceof TokenizerError)) throw cause;
    throw new ConfigError(
      `A loss or the credit needs the kinds of tokens (needs.kinds), which the tokenizer of ${model.path} spells: ${cause.message}. Name a folder with its tokenizer.json as model.path.`,
      { cause },
    );
  }
}
