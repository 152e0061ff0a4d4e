/**
 * A compute thread as its owner sees it: messages to it and from it, and its end. The threads of Node are in `engine-thread.ts`; a page brings Web Workers. Every implementation
 * runs a `ComputeLoop` over the messages, in their order.
 */
import type { EngineLostError } from '../engine-errors.ts';
import type { FromThread, ToThread } from './messages.ts';

export interface ThreadEvents {
  message(message: FromThread): void;
  /** Called at most once, and never after `terminate`. */
  lost(reason: EngineLostError): void;
}

export interface Thread {
  post(message: ToThread): void;
  /** Ends the thread at once, even in the middle of a step. */
  terminate(): Promise<void>;
}

/** Starts the thread of this index, from 0. Messages posted before it has come up wait for it. */
export type StartThread = (index: number, events: ThreadEvents) => Thread;
