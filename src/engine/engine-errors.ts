/** The engine's errors. They distinguish an invalid request, a busy engine and a dead engine. */
import { VfError, type VfErrorOptions } from '../core/errors.ts';

/**
 * `not_found`: no such file or adapter. `name_taken`: an adapter of that name is loaded. `too_long`: the prompt leaves no room for a token. `unsupported`: a kind of
 * model or adapter that the engine cannot run. `invalid`: anything else.
 */
export type EngineInputCode = 'not_found' | 'name_taken' | 'too_long' | 'unsupported' | 'invalid';

/** The call is invalid and was not carried out. */
export class EngineInputError extends VfError {
  override readonly name = 'EngineInputError';
  readonly code: EngineInputCode;
  /** Name of the faulty field on the wire; null if unknown. */
  readonly param: string | null;

  constructor(message: string, options: VfErrorOptions & { readonly code?: EngineInputCode; readonly param?: string } = {}) {
    super(message, options);
    this.code = options.code ?? 'invalid';
    this.param = options.param ?? null;
  }
}

/** Too many requests are waiting or running. */
export class EngineBusyError extends VfError {
  override readonly name = 'EngineBusyError';
}

/** The model computed a NaN or an infinity. */
export class NotFiniteError extends VfError {
  override readonly name = 'NotFiniteError';
}

/** A thread of the engine died. The engine cannot be used any more; open a new one. */
export class EngineLostError extends VfError {
  override readonly name = 'EngineLostError';
}

/** Something does not fit the memory of WebAssembly or of the machine. */
export class MemoryLimitError extends VfError {
  override readonly name = 'MemoryLimitError';
}
