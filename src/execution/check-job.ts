import { ConfigError } from '../core/errors.ts';
import type { ExecutionJob, ExecutionLimits } from './code-executor.ts';

interface Range {
  readonly least: number;
  readonly most: number;
  readonly whole: boolean;
}

const MEBIBYTE = 2 ** 20;
const RANGES: Readonly<Record<keyof ExecutionLimits, Range>> = {
  seconds: { least: 0.01, most: 86_400, whole: false },
  memoryBytes: { least: 32 * MEBIBYTE, most: 4096 * MEBIBYTE, whole: true },
  outputBytes: { least: 0, most: 1024 * MEBIBYTE, whole: true },
  reprLength: { least: 1, most: 16 * MEBIBYTE, whole: true },
};
const SEEDS: Range = { least: 0, most: 2 ** 32 - 1, whole: true };

/** Throws ConfigError for limits or a seed that no executor can keep. */
export function assertUsableJob({ limits, hashSeed }: Pick<ExecutionJob, 'limits' | 'hashSeed'>): void {
  for (const [name, range] of Object.entries(RANGES)) assertWithin(`limits.${name}`, limits[name as keyof ExecutionLimits], range);
  assertWithin('hashSeed', hashSeed, SEEDS);
}

function assertWithin(name: string, value: number, { least, most, whole }: Range): void {
  if (value >= least && value <= most && (!whole || Number.isInteger(value))) return;
  throw new ConfigError(`${name} must be ${whole ? 'an integer' : 'a number'} from ${least} to ${most}, got ${value}`);
}
