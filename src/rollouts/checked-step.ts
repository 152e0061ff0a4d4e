/** Checks what an environment's `step` and `keep` return, which may be JavaScript that no compiler has read. A fault here would come again at every further attempt. */
import { messagesProblem } from '../core/check-messages.ts';
import type { SegmentKind, StepResult } from '../core/environment.ts';
import { EnvironmentError } from '../core/errors.ts';
import { unknownKeyProblem } from '../core/option-spelling.ts';
import { returnedText } from '../core/returned-text.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';

const STEP_KEYS = ['observation', 'stop', 'next', 'reward'] as const satisfies readonly (keyof StepResult)[];
const KINDS: readonly unknown[] = ['observation', 'corrective'] satisfies readonly SegmentKind[];

export function checkedStep(result: StepResult): StepResult {
  const given: unknown = result;
  if (!isObject(given)) throw wrong(`step returned ${returnedText(given)}. It must return {observation, stop}`);
  const unknown = unknownKeyProblem(given, STEP_KEYS);
  if (unknown !== null) throw wrong(`step returned ${unknown}`);
  const { observation, stop, next = {} } = given;
  if (observation !== null && observation !== undefined) checkObservation(observation);
  if (stop !== null && (typeof stop !== 'string' || stop === ''))
    throw wrong(`step gave the stop condition ${returnedText(stop)}. It must be a string that says why the episode ends, or null if it continues`);
  if (!isObject(next)) throw wrong(`step gave ${returnedText(next)} as settings of the next generation. It must be an object with stop or prefill`);
  const { stop: strings, prefill } = next;
  if (strings !== undefined && !(Array.isArray(strings) && strings.every((text) => typeof text === 'string' && text !== '')))
    throw wrong(`step gave ${returnedText(strings)} as stop strings of the next generation. It must be a list of non-empty strings`);
  if (prefill !== undefined && typeof prefill !== 'string') throw wrong(`step gave the prefill ${returnedText(prefill)}. It must be a string`);
  return result;
}

function checkObservation(observation: unknown): void {
  const { messages, text, kind } = fieldsOf(observation);
  if (messages === undefined && typeof text !== 'string')
    throw wrong(
      `step gave an observation that is not text: ${returnedText(isObject(observation) ? text : observation)}. Return a string, or messages`,
    );
  const problem = messages === undefined ? null : messagesProblem(messages as Parameters<typeof messagesProblem>[0], 'messages');
  if (problem !== null) throw wrong(`step gave messages that cannot be shown: ${problem}`);
  if (!KINDS.includes(kind)) throw wrong(`step gave an observation of the kind ${returnedText(kind)}. It must be one of ${KINDS.join(', ')}`);
}

/** Number of characters (UTF-16 units) of a turn to keep. */
export function checkedKeep(kept: number): number {
  if (typeof kept === 'number' && !Number.isNaN(kept)) return kept;
  throw wrong(`keep returned ${returnedText(kept)}. It must return the number of characters to keep`);
}

function wrong(text: string): EnvironmentError {
  return new EnvironmentError(`The environment's ${text}`, { isOfCode: true });
}
