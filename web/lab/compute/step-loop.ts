/** Runs a `ComputeLoop` in turns: takes the messages that have arrived, does one step, and gives the event loop a turn. */
import { ComputeLoop } from '../../../src/engine/threads/compute-loop.ts';
import type { FromThread, ToThread } from '../../../src/engine/threads/messages.ts';
import { inLaterTurn } from './turns.ts';

export class StepLoop {
  readonly #loop: ComputeLoop;
  readonly #fail: (cause: unknown) => void;
  #runs = false;
  #ended = false;

  /** @param fail called once, with the cause that ended the loop */
  constructor(post: (message: FromThread) => void, fail: (cause: unknown) => void) {
    this.#loop = new ComputeLoop(post);
    this.#fail = fail;
  }

  take(message: ToThread): void {
    this.#guarded(() => this.#loop.take(message));
    if (this.#runs) return;
    this.#runs = true;
    inLaterTurn(() => this.#step());
  }

  end(): void {
    this.#ended = true;
  }

  #step(): void {
    this.#runs = false;
    this.#guarded(() => {
      this.#runs = this.#loop.advance();
    });
    if (this.#runs) inLaterTurn(() => this.#step());
  }

  #guarded(work: () => void): void {
    if (this.#ended) return;
    try {
      work();
    } catch (cause) {
      this.#ended = true;
      this.#fail(cause);
    }
  }
}
