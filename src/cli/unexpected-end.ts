/**
 * Ends of the process that no command decided. Code of the user's may call `process.exit`, await what never settles, or throw where nothing catches it, such as in
 * a timer. None of these is a success.
 */
import { fileURLToPath } from 'node:url';
import { type TrainingError } from '../core/errors.ts';
import { ownCodeText, thrownPlace } from '../core/thrown-place.ts';
import { moduleFault } from '../core/module-fault.ts';
import { packageRoot } from '../data/package-root.ts';
import { releaseLocks } from '../files/run-lock.ts';

/** A longer line of a stack is part of a message: no frame. */
const LONGEST_FRAME = 500;

let listener: ((code: number) => void) | null = null;

/** Gives an end of the process that `expectEnd` did not announce the exit code `code`, and says how it came. */
export function watchEnd(code: number, onEnd: (how: string) => void): void {
  expectEnd();
  listener = () => {
    process.exitCode = code;
    releaseLocks();
    onEnd(howItEnded());
  };
  process.on('exit', listener);
}

/** The command ends the process itself now. */
export function expectEnd(): void {
  if (listener !== null) process.off('exit', listener);
  listener = null;
}

function howItEnded(): string {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 50;
  const { stack = '' } = new Error('ended');
  Error.stackTraceLimit = limit;
  const [, callers] = stack.split(/^ +at (?:\w+\.)?exit \(node:internal.*\n/m);
  const place = thrownPlace(callers);
  if (callers === undefined) return 'the process ended in the middle: code waits for a promise that never settles';
  return `the process ended in the middle: process.exit was called${place === null ? '' : ` (${place})`}`;
}

/** The error that nothing caught as one of the user's code; null if it is one of this package. */
export function uncaughtFault(error: unknown): TrainingError | null {
  const frames = (error instanceof Error ? (error.stack ?? '') : '')
    .split('\n')
    .filter((line) => line.length <= LONGEST_FRAME && /^\s+at .*\d+:\d+\)?$/.test(line) && !/[( ]node:/.test(line));
  const own = frames.find((frame) => !isOfPackage(frame));
  if (own === undefined && (frames.length > 0 || (error instanceof Error && 'syscall' in error))) return null;
  const path = own === undefined ? null : /((?:file:\/\/)?\/[^()]*?)(?:\?[^:)]*)?:\d+:\d+\)?$/.exec(own)?.[1];
  const module = path === null || path === undefined ? 'a module' : path.startsWith('file:') ? fileURLToPath(path) : path;
  return moduleFault(`An error that nothing caught ended the run: ${ownCodeText(error)}`, module, error);
}

function isOfPackage(frame: string): boolean {
  return ['src', 'dist', 'bin', 'node_modules'].some((folder) => frame.includes(`${packageRoot()}/${folder}/`));
}
