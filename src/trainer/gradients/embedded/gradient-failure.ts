/** Translates the engine's errors to those of the gradient backend contract. */
import { GradientError, type GradientErrorCode, thrownText } from '../../../core/errors.ts';
import { EngineInputError, EngineLostError, MemoryLimitError, NotFiniteError } from '../../../engine/engine-errors.ts';

/** Its message is one line. */
export function gradientFailure(error: unknown): GradientError {
  if (error instanceof GradientError) return error;
  const text = thrownText(error).replaceAll(/\s*\n\s*/g, ' ');
  return new GradientError(text, { code: codeOf(error), cause: error });
}

function codeOf(error: unknown): GradientErrorCode {
  if (error instanceof EngineInputError) return 'bad_input';
  if (error instanceof MemoryLimitError) return 'out_of_memory';
  if (error instanceof NotFiniteError) return 'not_finite';
  return error instanceof EngineLostError ? 'lost' : 'internal';
}
