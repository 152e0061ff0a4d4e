/** Checks what an environment's `start` gives, which may be JavaScript that no compiler has read. A policy's client would fail on it with an error of its own. */
import { messagesProblem } from '../core/check-messages.ts';
import { toolsProblem } from '../core/check-tools.ts';
import type { Episode } from '../core/environment.ts';
import { EnvironmentError } from '../core/errors.ts';
import { returnedText } from '../core/returned-text.ts';
import { isObject } from '../schemas/is-object.ts';

export function checkedEpisode<E extends Episode>(episode: E): E {
  const { prompt, tools, stop, prefill, state } = episode;
  const problem = messagesProblem(prompt, 'prompt');
  if (problem !== null) throw wrong(`messages that cannot be shown: ${problem}`);
  const toolProblem = tools === undefined ? null : toolsProblem(tools);
  if (toolProblem !== null) throw wrong(`tools that cannot be offered: ${toolProblem}`);
  if (!Array.isArray(stop) || !stop.every((text) => typeof text === 'string' && text !== ''))
    throw wrong(`${returnedText(stop)} as stop strings. It must be a list of non-empty strings`);
  if (prefill !== undefined && typeof prefill !== 'string') throw wrong(`the prefill ${returnedText(prefill)}. It must be a string, or left out`);
  if (!isObject(state)) throw wrong(`${returnedText(state)} as its state. It must be an object`);
  return episode;
}

function wrong(text: string): EnvironmentError {
  return new EnvironmentError(`The environment gave ${text}`, { isOfCode: true });
}
