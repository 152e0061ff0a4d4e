/** Ends synchronous work that takes too long, such as a pattern that tries without end. Node only. */
import { createContext, Script } from 'node:vm';
import { TimeExceeded, type WithinTime } from './time-limit.ts';

const script = new Script('work()');
const scope: { work: () => unknown } = { work: () => null };
const context = createContext(scope);

/** A call costs about a tenth of a millisecond, for the thread that keeps the time. */
export const withinTime: WithinTime = <T>(limitMs: number, work: () => T): T => {
  scope.work = work;
  try {
    return script.runInContext(context, { timeout: limitMs }) as T;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException | null)?.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
      throw new TimeExceeded(`The work took more than ${limitMs} ms`, { cause });
    throw cause;
  }
};
