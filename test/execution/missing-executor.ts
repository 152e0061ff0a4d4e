import { ExecutionError } from '../../src/core/errors.ts';
import { type ExecutorName, openExecutor } from '../../src/execution/index.ts';

/** Why this machine cannot start the executor, with what to install; null if it can. */
export async function whyMissing(name: ExecutorName): Promise<string | null> {
  try {
    const executor = await openExecutor(name);
    await executor.close();
    return null;
  } catch (error) {
    if (error instanceof ExecutionError) return error.message;
    throw error;
  }
}
