/** The names of the arguments that an environment takes. */
import { UnknownArgumentError } from '../core/environment-arguments.ts';
import { loadEnvironment } from './load-environment.ts';

/** No environment can have an argument of this name. */
const NO_NAME = '?';

/**
 * Loads the environment with an argument that it cannot have. `readArguments` refuses it before anything is read, and the error names the arguments. Resolves to no
 * names for an environment that does not use `readArguments`, or cannot be loaded.
 */
export async function environmentArgumentNames(id: string, env: NodeJS.ProcessEnv): Promise<readonly string[]> {
  try {
    const environment = await loadEnvironment(id, { [NO_NAME]: null }, { env });
    await environment.close();
  } catch (error) {
    for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) if (cause instanceof UnknownArgumentError) return cause.known;
  }
  return [];
}
