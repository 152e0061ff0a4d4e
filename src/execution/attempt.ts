/** One attempt at a job, as a worker makes it. */
import type { JobFailure } from './code-executor.ts';

/** `shared`: among plain programs, if this one is plain. `own`: in an interpreter that runs nothing else. `apart`: own, for arguments that may do anything. */
export type RunMode = 'shared' | 'own' | 'apart';

export type Attempt =
  /** Fields of the runner's reply, which the program may have written. */
  | { readonly kind: 'reply'; readonly fields: readonly Uint8Array[] }
  | { readonly kind: 'ended'; readonly failure: JobFailure; readonly detail: string };
