/** Faults of a module that the user brought: a loss, a credit, a source. Every further attempt would fail in the same way, so such a fault ends the run until the module is corrected. */
import { TrainingError } from './errors.ts';
import { isModulePath } from './module-path.ts';

/** @param module the name that the user gave, perhaps with its key: `./my-loss.ts (losses.mine.use)`, or an environment's id */
export function moduleFault(text: string, module: string, cause?: unknown, failedRollouts = 0): TrainingError {
  const path = module.replace(/ \([\w.]+\)$/, '');
  return new TrainingError(text, {
    // A corrected module has another digest than the one that the run began with.
    resumeFlags: isModulePath(path) ? ['--allow-changes'] : [],
    correct: path,
    failedRollouts,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** The fault of the user's code for which a signal aborted; null if it aborted for another reason, or did not. */
export function stoppingFault(signal: AbortSignal | undefined): TrainingError | null {
  const { cause } = (signal?.reason ?? {}) as { readonly cause?: unknown };
  return cause instanceof TrainingError ? cause : null;
}

/** Throws if a method that must not be async returned a promise. */
export function assertNotAsync(
  returned: unknown,
  { method, module, shape }: { readonly method: string; readonly module: string; readonly shape: string },
): void {
  if (!(returned instanceof Promise)) return;
  // Its rejection must not end the process.
  returned.catch(() => {});
  throw moduleFault(
    `${method} ${module} must not be async: it must return ${shape}, not a Promise. Read files with readFileSync, and ask other models in a reward or in a source`,
    module,
  );
}
