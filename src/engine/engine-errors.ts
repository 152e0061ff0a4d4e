/** The engine's errors. A request that cannot be is told apart from one that came at the wrong time and from an engine that is gone. */
import { VfError, type VfErrorOptions } from '../core/errors.ts';

/** `not_found`: no such file or adapter. `name_taken`. `too_long`: the prompt leaves no room. `unsupported`: a model or adapter of another kind. `invalid`: anything else. */
export type EngineInputCode = 'not_found' | 'name_taken' | 'too_long' | 'unsupported' | 'invalid';

/** The call cannot be carried out as it is; nothing happened. */
export class EngineInputError extends VfError {
  override readonly name = 'EngineInputError';
  readonly code: EngineInputCode;
  /** Which field of the request, as the wire calls it; null where that is not known. */
  readonly param: string | null;

  constructor(message: string, options: VfErrorOptions & { readonly code?: EngineInputCode; readonly param?: string } = {}) {
    super(message, options);
    this.code = options.code ?? 'invalid';
    this.param = options.param ?? null;
  }
}

/** Too many requests wait already. */
export class EngineBusyError extends VfError {
  override readonly name = 'EngineBusyError';
}

/** The model computed a NaN or an infinity. */
export class NotFiniteError extends VfError {
  override readonly name = 'NotFiniteError';
}

/** A thread of the engine died; only a new engine goes on. */
export class EngineLostError extends VfError {
  override readonly name = 'EngineLostError';
}

/** It does not fit the memory that WebAssembly or the machine gives. */
export class MemoryLimitError extends VfError {
  override readonly name = 'MemoryLimitError';
}
