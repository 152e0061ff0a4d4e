/**
 * The state of a credit or a source of a user's in a checkpoint. A resumed run would go on wrongly, without a word, from a state that was not saved as a whole: every fault of these
 * methods ends the run, and no checkpoint of that step is written.
 */
import { untilAborted } from '../../core/abort.ts';
import { TimeoutError, TrainingError } from '../../core/errors.ts';
import { ownCodeText } from '../../core/thrown-place.ts';
import { moduleFault } from '../../core/module-fault.ts';
import { namesIn } from '../../files/if-there.ts';
import { deadlineOf } from '../../rollouts/deadline.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';

interface State {
  saveState(directory: string): Promise<void>;
  loadState(directory: string): Promise<void>;
}

interface Owner {
  readonly owner: 'credit' | 'source';
  /** The name that the user gave. */
  readonly module: string;
  /** A promise that never settles would hold the run without a word. */
  readonly limits: TrainingConfig['rollouts'];
}

/** A checkpoint is written to its end. */
const UNSTOPPED = new AbortController().signal;

export function checkedState(state: State, { owner, module, limits: { timeoutS, scoringTimeoutS } }: Owner): State {
  const seconds = scoringTimeoutS ?? timeoutS;
  const own = async (method: keyof State, directory: string): Promise<unknown> => {
    const what = `${method} of the ${owner} ${module}`;
    const awaited = () => 'a promise that it awaits may never settle';
    const timeoutMs = seconds === null ? null : seconds * 1000;
    using deadline = deadlineOf({ timeoutMs, what: `${what} did not end`, option: 'rollouts.scoring_timeout_s', awaited }, UNSTOPPED);
    try {
      // It may not be async.
      return await untilAborted(Promise.resolve(state[method](directory)), deadline.signal);
    } catch (cause) {
      if (cause instanceof TrainingError) throw cause;
      throw moduleFault(cause instanceof TimeoutError ? cause.message : `${what} failed: ${ownCodeText(cause)}`, module, cause);
    }
  };
  return {
    async saveState(directory) {
      const returned = await own('saveState', directory);
      if (isNothing(returned) || (await namesIn(directory)).length > 0) return;
      throw moduleFault(
        `saveState of the ${owner} ${module} returned a value and wrote no file, so a resumed run would go on without it: write the state into the folder that it is given`,
        module,
      );
    },
    async loadState(directory) {
      await own('loadState', directory);
    },
  };
}

/** What a method returns that writes nothing or, by Promise.all, several files. */
function isNothing(returned: unknown): boolean {
  return Array.isArray(returned) ? returned.every(isNothing) : returned === undefined || returned === null;
}
