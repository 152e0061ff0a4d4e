/** Opens a session's gradient backend: the PyTorch worker, or the embedded engine, shared with an embedded sampler. */
import { assertDiskRoom } from './assert-disk-room.ts';
import { ConfigError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { GradientBackend } from '../../trainer/gradient-backend.ts';
import type { TrainingPaths } from '../../trainer/training-session.ts';
import type { EmbeddedPolicy } from '../policy/embedded-policy.ts';
import { modelFacts } from '../../files/model-facts.ts';
import type { Environment } from '../../core/environment.ts';
import { missingModules } from '../../launch/probe-python.ts';
import { openEngine } from '../engine/open-engine.ts';

export interface OpenBackendOptions {
  readonly config: TrainingConfig;
  /** The in-process policy; null if a server samples. */
  readonly embedded: EmbeddedPolicy | null;
  /** The folder in which the PyTorch worker finds images, its log, and the folders of what it saves. */
  readonly paths: Pick<TrainingPaths, 'images' | 'workerLog' | 'checkpoints'>;
  /** Environment of the PyTorch worker. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Cancels the start. */
  readonly signal: AbortSignal;
}

/** Throws ConfigError also if the run's folder has no room for what the backend will save. */
export async function openBackend(options: OpenBackendOptions): Promise<GradientBackend> {
  const backend = await (options.config.backend.kind === 'torch' ? torchBackend(options) : embeddedBackend(options));
  try {
    await assertDiskRoom({ ...options, adapter: backend.adapter });
    return backend;
  } catch (error) {
    await backend.close();
    throw error;
  }
}

async function torchBackend({ config, paths, variables, signal }: OpenBackendOptions): Promise<GradientBackend> {
  const { backend, model } = config;
  const { TorchBackend } = await import('../../trainer/gradients/torch/torch-backend.ts');
  const devices = backend.devices ?? [backend.device];
  return TorchBackend.start({
    python: backend.python,
    modelPath: model.path,
    adapter: adapterOf(config),
    devices,
    worldSize: backend.devices === null ? 1 : worldSize(devices.length, variables),
    sharding: backend.sharding,
    dtype: backend.dtype,
    gradientCheckpointing: backend.gradientCheckpointing === true,
    threads: backend.threads,
    timeoutMs: backend.timeoutS * 1000,
    logPath: paths.workerLog,
    images: { folder: paths.images, cacheBytes: backend.imageCacheMb * 2 ** 20 },
    signal,
    env: variables,
  });
}

const MODULES = ['torch', 'transformers', 'safetensors', 'numpy'];

/** Throws ConfigError if the PyTorch worker could not start. Checked before a launched server loads its model, which takes minutes. */
export async function assertWorkerStarts(
  config: TrainingConfig,
  { variables, signal }: Pick<OpenBackendOptions, 'variables' | 'signal'>,
): Promise<void> {
  const { kind, devices, python } = config.backend;
  if (kind !== 'torch') return;
  if (devices !== null) worldSize(devices.length, variables);
  const modules = modelFacts(config.model.path).seesImages ? [...MODULES, 'PIL'] : MODULES;
  const remedy = `Set backend.python to a Python with ${modules.slice(0, -1).join(', ')} and ${modules.at(-1)}.`;
  const lacking = await missingModules(python, modules, { env: variables, signal, remedy });
  if (lacking.length > 0) throw new ConfigError(`The Python ${python} of the gradient worker lacks ${lacking.join(', ')}. ${remedy}`);
}

/** Throws ConfigError if the environment shows images that the base cannot read. Checked before sampling. */
export function assertReadsImages(
  { capabilities }: GradientBackend,
  { id, needs = [] }: Pick<Environment, 'id' | 'needs'>,
  { model }: TrainingConfig,
): void {
  if (capabilities.images || !needs.includes('images')) return;
  throw new ConfigError(
    `${id} shows images, but the base ${model.path} of the gradient backend reads text only. Set model.path to the vision-language model that the policy server serves.`,
  );
}

/**
 * Number of the worker's processes on all hosts. torchrun's variables tell it: with MASTER_ADDR and WORLD_SIZE, this host has the first ranks, and the
 * others are started by hand on theirs.
 */
export function worldSize(devices: number, variables: OpenBackendOptions['variables']): number {
  const { MASTER_ADDR: address, MASTER_PORT: port, WORLD_SIZE: size, RANK: rank = '0' } = variables;
  if (address === undefined || size === undefined) return devices;
  if (rank !== '0')
    throw new ConfigError(`vf-train runs on the host of rank 0, got RANK=${rank}; on other hosts start worker.py --join (docs/gpu-training.md)`);
  if (port === undefined) throw new ConfigError(`MASTER_ADDR=${address} needs MASTER_PORT, the port where the ranks meet; set both or neither`);
  const count = Number(size);
  if (Number.isSafeInteger(count) && count >= devices) return count;
  throw new ConfigError(`WORLD_SIZE must be a whole number of at least ${devices}, the length of backend.devices, got ${JSON.stringify(size)}`);
}

async function embeddedBackend({ config, embedded, signal }: OpenBackendOptions): Promise<GradientBackend> {
  const { EmbeddedBackend } = await import('../../trainer/gradients/embedded/embedded-backend.ts');
  const { threads, gradientCheckpointing } = config.backend;
  const ownsEngine = embedded === null;
  const engine = ownsEngine
    ? await openEngine({ modelPath: config.model.path, cacheTokens: 0, ...(threads === null ? {} : { threads }), signal })
    : await embedded.engine(signal);
  return EmbeddedBackend.on(engine, { adapter: adapterOf(config), gradientCheckpointing: gradientCheckpointing === true, ownsEngine, signal });
}

function adapterOf({ lora, model, seed }: TrainingConfig) {
  return { rank: lora.rank, alpha: lora.alpha, targets: lora.targets, seed, initial: model.initialAdapter };
}
