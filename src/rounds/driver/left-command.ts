/** The command that a killed `vf-rounds run` leaves running. */
import { setTimeout as sleep } from 'node:timers/promises';
import { throwIfAborted } from '../../core/abort.ts';
import { processStart } from '../../files/process-start.ts';

export interface LeftCommand {
  readonly pid: number;
  /** From `processStart`: a later process with the same id has another one. */
  readonly start: string;
}

/** Milliseconds between two checks whether the command has ended. */
const LOOK_MS = 500;

export async function isRunning({ pid, start }: LeftCommand): Promise<boolean> {
  return (await processStart(pid)) === start;
}

/** Throws CancelledError when the signal aborts. */
export async function untilEnded(command: LeftCommand, signal: AbortSignal): Promise<void> {
  while (await isRunning(command)) {
    throwIfAborted(signal);
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {
      throwIfAborted(signal);
    });
  }
}
