/** Messages between the pool and one sandbox thread. */
import type { JobFailure } from '../code-executor.ts';
import type { RunMode } from '../attempt.ts';
import type { Program } from './interpreter.ts';

export interface ThreadSetup {
  readonly program: Program;
  /** [1], shared: the number of jobs posted to the thread, on which it waits. */
  readonly posted: Int32Array;
  /** [1], shared: CPU time of the thread up to its last message, in milliseconds. */
  readonly cpuMs: Float64Array;
  /** The interpreter that serves one job after the other. */
  readonly warm: { readonly hashSeed: number; readonly memoryPages: number };
}

export interface ThreadJob {
  /** A frame for the runner, without its token. */
  readonly fields: readonly (string | Uint8Array)[];
  /** `shared` by the warm interpreter, if the program may use it; the other modes by a new one. */
  readonly mode: RunMode;
  /** For a new interpreter. */
  readonly hashSeed: number;
  readonly memoryPages: number;
  /** Limit of the program's printed output, in bytes. */
  readonly outputBytes: number;
  /** The longest reply, in bytes. */
  readonly replyBytes: number;
}

export type FromThread =
  /** A warm interpreter waits for jobs: the first, or one that follows on another. `program` holds the compiled modules, so that further threads start faster. */
  | { readonly kind: 'ready'; readonly program: ThreadSetup['program'] }
  /** The warm interpreter does not start. */
  | { readonly kind: 'failed'; readonly message: string }
  /** The end of a job. `restarts`: another warm interpreter starts before the next job. */
  | (ThreadAnswer & { readonly restarts: boolean });

export type ThreadAnswer =
  /** The fields of the runner's reply, without its token. */
  | { readonly kind: 'reply'; readonly fields: readonly Uint8Array[] }
  /** The job ended its interpreter. */
  | { readonly kind: 'ended'; readonly failure: Exclude<JobFailure, 'timeout'>; readonly detail: string };
