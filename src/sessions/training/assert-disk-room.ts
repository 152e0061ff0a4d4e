/** Checks before anything is sampled that the run's folder has room for its adapters and checkpoints, whose sizes the backend knows. Rollouts are left to vf-doctor, which estimates them. */
import { readdir, statfs } from 'node:fs/promises';
import { ConfigError } from '../../core/errors.ts';
import { bytesText, plural } from '../../reports/text/number-text.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { totalSteps } from '../../trainer/config/training-schedule.ts';
import type { AdapterDescription } from '../../trainer/gradient-backend.ts';
import type { TrainingPaths } from '../../trainer/training-session.ts';

export interface DiskRoom {
  readonly adapter: Pick<AdapterDescription, 'rank' | 'modules'>;
  readonly config: Pick<TrainingConfig, 'checkpoint' | 'rollouts' | 'sft' | 'steps'>;
  readonly paths: Pick<TrainingPaths, 'checkpoints'>;
}

const FLOAT32_BYTES = 4;
/** The adapter and Adam's two moments. */
const PARTS = 3;

/** Throws ConfigError. */
export async function assertDiskRoom({ adapter, config, paths }: DiskRoom): Promise<void> {
  const { bavail, bsize } = await statfs(paths.checkpoints);
  const free = bavail * bsize;
  const bytes = FLOAT32_BYTES * adapter.rank * adapter.modules.reduce((sum, { inFeatures, outFeatures }) => sum + inFeatures + outFeatures, 0);
  const kept = (await readdir(paths.checkpoints)).filter((name) => !name.endsWith('.tmp')).length;
  const checkpoints = checkpointsToWrite(config, kept);
  const needed = bytes * (config.rollouts.maxStaleness + 2 + PARTS * checkpoints);
  if (free >= needed) return;
  throw new ConfigError(
    `The disk of ${paths.checkpoints} has ${bytesText(free)} free, and the run needs ${bytesText(needed)} there: ${plural(checkpoints, 'checkpoint')} of ${bytesText(PARTS * bytes)} and the adapters that are served. Free some space, name another folder (output_dir), or lower checkpoint.keep or lora.rank.`,
  );
}

/** A checkpoint exists together with its successor while that is written. A run that keeps all may have them moved elsewhere meanwhile. */
function checkpointsToWrite({ checkpoint, ...config }: DiskRoom['config'], kept: number): number {
  const written = Math.ceil(totalSteps(config) / checkpoint.every);
  const most = checkpoint.keep === 0 ? 2 : checkpoint.keep + 1;
  return Math.max(1, Math.min(written, most) - kept);
}
