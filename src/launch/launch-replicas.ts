/** Starts several vLLM servers of one model at once, each with its own port, log and GPUs. */
import { shareDevices, visibleDevices } from './gpu-cards.ts';
import { probePython } from './probe-python.ts';
import { type VllmLaunchOptions, VllmProcess } from './vllm-process.ts';

export interface LaunchReplicasOptions extends Omit<VllmLaunchOptions, 'devices' | 'takenPorts' | 'logPath'> {
  readonly replicas: number;
  readonly tensorParallelSize: number;
  /** Log of each replica, from 0. */
  readonly logPath: (replica: number) => string;
}

/** Resolves when all are healthy. Throws as VllmProcess.start does, and ConfigError if there are too few GPUs; then nothing is left running. */
export async function launchReplicas({ logPath, ...options }: LaunchReplicasOptions): Promise<readonly VllmProcess[]> {
  const takenPorts = new Set<number>();
  const devices = await devicesOf(options);
  const starting = devices.map((own, i) => VllmProcess.start({ ...options, devices: own, logPath: logPath(i), takenPorts }));
  const outcomes = await Promise.allSettled(starting);
  const started = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
  const failed = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failed === undefined) return started;
  await Promise.all(started.map((server) => server.stop()));
  throw failed.reason;
}

async function devicesOf(options: Omit<LaunchReplicasOptions, 'logPath'>): Promise<readonly (readonly string[] | null)[]> {
  const { replicas, tensorParallelSize, python, baseEnv, signal } = options;
  const env = { ...baseEnv, ...options.env };
  if (replicas * tensorParallelSize === 1) return [null];
  const { isCpuBuild } = await probePython(python, { env, signal });
  return shareDevices({ replicas, tensorParallelSize }, isCpuBuild ? null : await visibleDevices({ env, signal }));
}
