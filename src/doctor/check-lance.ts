/** Checks that LanceDB, which stores vectors, loads here: dense and hybrid retrieval need it. */
import { ConfigError } from '../core/errors.ts';
import { loadLanceLibrary } from '../retrieval/dense/lance-library.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { type Finding, missing, ok, skipped } from '../sessions/finding.ts';

const NEED_IT: readonly unknown[] = ['dense', 'hybrid'];

export async function checkLance(config: TrainingConfig | null): Promise<Finding> {
  const { args = {}, evalArgs = {} } = config?.environment ?? {};
  const isNeeded = [args['engine'], evalArgs['engine']].some((engine) => NEED_IT.includes(engine));
  try {
    await loadLanceLibrary();
    return ok('lancedb', 'stores vectors, for dense and hybrid retrieval');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const [text = '', remedy = ''] = error.message.split(' Install it: ');
    return isNeeded ? missing('lancedb', text, remedy) : skipped('lancedb', 'not installed (only dense and hybrid retrieval need it)');
  }
}
