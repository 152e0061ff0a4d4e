/** Options as programs pass them: an unknown name is an error, because a misspelt option would otherwise have no effect. */
import { suggestion } from '../../core/closest-name.ts';
import { EngineInputError } from '../engine-errors.ts';

/** Throws EngineInputError for a name that is not in `known`. `what` is the call, as in `generate`. */
export function checkNames(what: string, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const own = NAMES[unknown];
  const meant = own !== undefined && known.includes(own) ? ` (did you mean ${own}?)` : suggestion(unknown, known);
  throw new EngineInputError(`${what} has no option ${unknown}${meant}. Its options are ${known.join(', ')}.`, {
    param: unknown,
  });
}

/** The options of `generate` and `createTrainer` by the names of the engine's own messages, which are those of vLLM and of `vf-train`. */
const NAMES: Readonly<Record<string, string>> = {
  max_tokens: 'maxNewTokens',
  min_tokens: 'minNewTokens',
  top_p: 'topP',
  top_k: 'topK',
  min_p: 'minP',
  stop_token_ids: 'stopTokenIds',
  'lora.rank': 'rank',
  'lora.alpha': 'alpha',
  'lora.targets': 'targets',
};
const WIRE_NAME = new RegExp(`\\b(${Object.keys(NAMES).join('|').replaceAll('.', '\\.')})\\b`, 'g');

/** Details that vLLM appends to a message that already contains them. */
const WIRE_DETAILS = / \(parameter=\w+, value=[^()]*\)$/;

/** The same error with this library's names of options, and without the details of the wire; any other value unchanged. */
export function inOwnNames(error: unknown): unknown {
  if (!(error instanceof EngineInputError)) return error;
  const message = error.message.replace(WIRE_DETAILS, '').replaceAll(WIRE_NAME, (name) => NAMES[name]!);
  if (message === error.message) return error;
  const { code, param } = error;
  return new EngineInputError(message, { code, cause: error, ...(param === null ? {} : { param: NAMES[param] ?? param }) });
}
