/** Chooses the GPUs of this machine that each launched server gets. */
import { execFile } from 'node:child_process';
import { ConfigError } from '../core/errors.ts';

export interface DeviceNeeds {
  /** Number of servers. */
  readonly replicas: number;
  /** Number of GPUs of each server. */
  readonly tensorParallelSize: number;
}

const TIMEOUT_MS = 20_000;

/**
 * Names of the GPUs that may be used, as CUDA_VISIBLE_DEVICES lists them, or those that nvidia-smi lists. Null if neither says anything, as on a machine
 * without NVIDIA's driver.
 */
export async function visibleDevices(env: Readonly<Record<string, string | undefined>>, signal: AbortSignal): Promise<readonly string[] | null> {
  const listed = env['CUDA_VISIBLE_DEVICES'];
  if (listed !== undefined) return names(listed, ',');
  const output = await new Promise<string | null>((resolve) => {
    const options = { env: { ...env }, signal, timeout: TIMEOUT_MS };
    execFile('nvidia-smi', ['--query-gpu=index', '--format=csv,noheader'], options, (error, stdout) => resolve(error === null ? stdout : null));
  });
  return output === null ? null : names(output, '\n');
}

/**
 * The GPUs of each server, in order and none twice. Null for a server whose GPUs vLLM chooses: a single server on one GPU, and all servers if no GPU is known.
 * Throws ConfigError if there are too few.
 */
export function shareDevices(
  { replicas, tensorParallelSize }: DeviceNeeds,
  visible: readonly string[] | null,
): readonly (readonly string[] | null)[] {
  const needed = replicas * tensorParallelSize;
  if (visible === null || needed === 1) return Array.from({ length: replicas }, () => null);
  if (visible.length < needed)
    throw new ConfigError(
      `[policy.launch] needs ${needed} GPUs (replicas ${replicas} × tensor_parallel_size ${tensorParallelSize}), but ${visible.length === 0 ? 'none is' : `only ${visible.length} are`} visible${visible.length === 0 ? '' : ` (${visible.join(',')})`}. Lower one of the two, or list more in CUDA_VISIBLE_DEVICES.`,
    );
  return Array.from({ length: replicas }, (_, i) => visible.slice(i * tensorParallelSize, (i + 1) * tensorParallelSize));
}

function names(text: string, separator: string): string[] {
  return text
    .split(separator)
    .map((name) => name.trim())
    .filter((name) => name !== '');
}
