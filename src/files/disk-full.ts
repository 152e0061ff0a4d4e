import { describeError, ResultsError, VfError } from '../core/errors.ts';

/** Tells whether a disk or a quota is full. Backends and their libraries report it in different ways, so the text of an error and its causes decides if it has no code. */
export function isDiskFull(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === 'ENOSPC' || code === 'EDQUOT' || /ENOSPC|EDQUOT|no space left|disk quota exceeded|disk is full/i.test(describeError(error));
}

/** The error of a command that could not write `path` because the disk is full. Returns any other error, and one that already says so, unchanged. */
export function unlessDiskFull(error: unknown, path: string): unknown {
  if (error instanceof VfError || !isDiskFull(error)) return error;
  return new ResultsError(`Could not write ${path}: the disk is full. Free some space and run the command again.`, { cause: error });
}
