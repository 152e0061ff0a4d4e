/** Estimates a run's disk usage from its configuration and the shape of the base. */
import { adapterParameterCount, type ModelShape } from '../launch/model-shape.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { totalSteps } from '../trainer/config/training-schedule.ts';

export interface DiskEstimate {
  readonly adapterBytes: number;
  readonly checkpointBytes: number;
  readonly rolloutBytes: number;
  readonly totalBytes: number;
  /** The settings that lower the greatest part, as a list of words. */
  readonly lower: string;
}

const FLOAT32_BYTES = 4;
/** Size of a recorded token in JSON: id, log-prob and text. */
export const BYTES_PER_TOKEN = 40;
/** The same in compressed form. */
const PACKED_BYTES_PER_TOKEN = 10;

/** `contextTokens`: tokens of the longest possible rollout. */
export function estimateDisk(config: TrainingConfig, shape: ModelShape, contextTokens: number): DiskEstimate {
  const { lora, checkpoint, rollouts, steps: rolloutSteps } = config;
  const steps = Math.max(1, totalSteps(config));
  const oneAdapter = adapterParameterCount(shape, lora.rank, lora.targets) * FLOAT32_BYTES;
  const every = Math.min(checkpoint.every, steps);
  const checkpoints = checkpoint.keep === 0 ? Math.ceil(steps / every) : checkpoint.keep;
  // A checkpoint exists together with its successor while that is written.
  const checkpointBytes = (checkpoints + 1) * 3 * oneAdapter;
  const adapterBytes = (rollouts.maxStaleness + 2) * oneAdapter;
  const neededSteps = checkpoint.keep === 0 ? rolloutSteps : Math.min(rolloutSteps, (checkpoint.keep + 1) * every);
  const stepTokens = rollouts.examplesPerStep * rollouts.rolloutsPerExample * contextTokens;
  const neededBytes = neededSteps * stepTokens * BYTES_PER_TOKEN;
  const archived = checkpoint.keepRollouts ? (rolloutSteps - neededSteps) * stepTokens * PACKED_BYTES_PER_TOKEN : 0;
  const rolloutBytes = Math.max(neededBytes, Math.min(neededBytes + archived, checkpoint.maxRolloutsGb * 1e9));
  const ofRollouts = rolloutBytes > neededBytes ? 'checkpoint.max_rollouts_gb' : 'checkpoint.every or rollouts.examples_per_step';
  const lower = rolloutBytes > adapterBytes + checkpointBytes ? ofRollouts : 'checkpoint.keep or lora.rank';
  return { adapterBytes, checkpointBytes, rolloutBytes, totalBytes: adapterBytes + checkpointBytes + rolloutBytes, lower };
}

/** Of several runs. What lowers the greatest one lowers the sum. */
export function sumOfDisk(estimates: readonly DiskEstimate[]): DiskEstimate | null {
  const [greatest] = estimates.toSorted((a, b) => b.totalBytes - a.totalBytes);
  if (greatest === undefined) return null;
  const sum = (part: Exclude<keyof DiskEstimate, 'lower'>) => estimates.reduce((total, estimate) => total + estimate[part], 0);
  return {
    adapterBytes: sum('adapterBytes'),
    checkpointBytes: sum('checkpointBytes'),
    rolloutBytes: sum('rolloutBytes'),
    totalBytes: sum('totalBytes'),
    lower: greatest.lower,
  };
}
