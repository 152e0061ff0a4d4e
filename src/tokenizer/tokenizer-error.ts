import { VfError, type VfErrorOptions } from '../core/errors.ts';

/** `not_found`: no tokenizer in the directory. `unsupported`: one of another kind. `invalid`: a broken one, or a conversation that the template refuses. */
export type TokenizerErrorCode = 'not_found' | 'unsupported' | 'invalid';

/** A tokenizer that cannot be read, or a conversation that its chat template does not take. */
export class TokenizerError extends VfError {
  override readonly name = 'TokenizerError';
  readonly code: TokenizerErrorCode;
  /** Which field of a request, as the wire calls it; null where it is none's fault. */
  readonly param: string | null;

  constructor(message: string, options: VfErrorOptions & { readonly code?: TokenizerErrorCode; readonly param?: string } = {}) {
    super(message, options);
    this.code = options.code ?? 'invalid';
    this.param = options.param ?? null;
  }
}
