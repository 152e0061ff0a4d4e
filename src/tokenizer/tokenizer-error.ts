import { VfError, type VfErrorOptions } from '../core/errors.ts';

/** `not_found`: no tokenizer in the directory. `unsupported`: one of another kind. `invalid`: a broken one, or a conversation that the template rejects. */
export type TokenizerErrorCode = 'not_found' | 'unsupported' | 'invalid';

/** A tokenizer cannot be read, or its chat template rejects a conversation. */
export class TokenizerError extends VfError {
  override readonly name = 'TokenizerError';
  readonly code: TokenizerErrorCode;
  /** The field of the request that is at fault, by its name on the wire; null if none is. */
  readonly param: string | null;

  constructor(message: string, options: VfErrorOptions & { readonly code?: TokenizerErrorCode; readonly param?: string } = {}) {
    super(message, options);
    this.code = options.code ?? 'invalid';
    this.param = options.param ?? null;
  }
}
