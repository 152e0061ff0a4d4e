import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TrainingPaths } from '../../trainer/training-session.ts';

/** The adapter with the lowest validation loss; null without one. */
export function bestAdapterOf({ best }: Pick<TrainingPaths, 'best'>): string | null {
  const adapter = join(best, 'adapter');
  return existsSync(adapter) ? adapter : null;
}
