/** Waits that end when the signal says so, even where the other side (an environment, a reward, a third-party client) does not listen to it. */

import { TimeoutError } from '../core/errors.ts';

/** True when the run was stopped, false while it goes on and when no more than a deadline of ours passed. */
export function isCancelled(signal: AbortSignal): boolean {
  return signal.aborted && !(signal.reason instanceof TimeoutError);
}

/** Settles as `work` does, or rejects with the signal's reason as soon as it aborts; what becomes of the work afterwards is ignored. */
export function untilAborted<T>(work: T | PromiseLike<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    const settle = (finish: () => void) => {
      signal.removeEventListener('abort', abort);
      finish();
    };
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort);
    Promise.resolve(work).then(
      (value) => settle(() => resolve(value)),
      (error: unknown) => settle(() => reject(error)),
    );
  });
}

/** As `untilAborted`; what is opened after the abort is disposed at once, for nobody holds it. */
export async function openUntilAborted<T extends AsyncDisposable>(opening: T | PromiseLike<T>, signal: AbortSignal): Promise<T> {
  try {
    return await untilAborted(opening, signal);
  } catch (error) {
    Promise.resolve(opening)
      .then((late) => late[Symbol.asyncDispose]())
      .catch(() => {});
    throw error;
  }
}

/** Settles as `work` does, or rejects with a TimeoutError after `ms` milliseconds; what becomes of the work afterwards is ignored. */
export async function withinMs<T>(ms: number, work: () => Promise<T>): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new TimeoutError(`The clean-up of the episode did not end within ${ms / 1000} s`)), ms);
  try {
    return await untilAborted(work(), late.signal);
  } finally {
    clearTimeout(timer);
  }
}
