import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Callbacks } from '../../src/library/callbacks.ts';

interface Options {
  readonly signal?: AbortSignal;
  readonly onStep?: (step: number) => void;
}
const failure = new Error('disk full');
/** Fails once the caller of the callback has gone on. */
const rejecting = (): unknown => setImmediate().then(() => Promise.reject(failure));

describe('Callbacks', () => {
  it('stops the work by its signal when a callback rejects, and rejects with that error instead of the error of the stop', async () => {
    const callbacks = new Callbacks<Options>({ onStep: rejecting });
    const { onStep, signal } = callbacks.options;
    const work = async () => {
      onStep?.(1);
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    };
    await expect(callbacks.through(work)).rejects.toBe(failure);
  });

  it('rejects although the work has ended well before its last callback', async () => {
    const callbacks = new Callbacks<Options>({ onStep: rejecting });
    await expect(callbacks.through(async () => callbacks.options.onStep?.(2))).rejects.toBe(failure);
    // Later operations of an object that is still open fail alike.
    await expect(callbacks.through(async () => 1)).rejects.toBe(failure);
  });

  it('waits for no callback once the caller aborts, and lets what a callback throws through', async () => {
    const stop = new AbortController();
    const throwing = (step: number): unknown => {
      if (step === 2) throw failure;
      return new Promise(() => {});
    };
    const waiting = new Callbacks<Options>({ onStep: throwing, signal: stop.signal });
    expect(() => waiting.options.onStep!(2)).toThrow(failure);
    const ended = waiting.through(async () => waiting.options.onStep?.(1));
    stop.abort();
    await expect(ended).resolves.toBeUndefined();
  });
});
