/** What keeps the loops of a pipeline from running without end and without a stop. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { countText } from '../core/count-text.ts';
import { PipelineError } from './pipeline-error.ts';

/** Loops within loops multiply their rounds. */
const MOST_CALLS = 200_000;
/** The longest time without a turn of the event loop, in milliseconds. */
const TURN_MS = 20;

export class RunBounds {
  #turnedAt = performance.now();

  /** Gives signals and timers their turn: tools that only compute never leave the thread otherwise. */
  async turn(): Promise<void> {
    if (performance.now() - this.#turnedAt < TURN_MS) return;
    await nextTurn();
    this.#turnedAt = performance.now();
  }

  /** Throws PipelineError. `number`: of the call that begins, from 1. */
  assertCall(number: number): void {
    if (number <= MOST_CALLS) return;
    throw new PipelineError(`The pipeline has made ${countText(MOST_CALLS)} calls and is not at its end; lower the times of loops within loops`, {
      failure: 'value',
    });
  }
}
