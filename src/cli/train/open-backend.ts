/** Opens a session's gradient backend: the PyTorch worker, or the embedded engine, shared with an embedded sampler. */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { GradientBackend } from '../../trainer/gradients/gradient-backend.ts';
import type { EmbeddedPolicy } from '../embedded-policy.ts';
import { openEngine } from '../open-engine.ts';

export interface OpenBackendOptions {
  readonly config: TrainingConfig;
  /** The in-process policy; null if a server samples. */
  readonly embedded: EmbeddedPolicy | null;
  /** Log file and environment variables of the PyTorch worker. */
  readonly logPath: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Cancels the start. */
  readonly signal: AbortSignal;
}

export function openBackend(options: OpenBackendOptions): Promise<GradientBackend> {
  return options.config.backend.kind === 'torch' ? torchBackend(options) : embeddedBackend(options);
}

async function torchBackend({ config, logPath, variables, signal }: OpenBackendOptions): Promise<GradientBackend> {
  const { backend, model } = config;
  const { TorchBackend } = await import('../../trainer/gradients/torch/torch-backend.ts');
  return TorchBackend.start({
    python: backend.python,
    modelPath: model.path,
    adapter: adapterOf(config),
    device: backend.device,
    dtype: backend.dtype,
    gradientCheckpointing: backend.gradientCheckpointing === true,
    threads: backend.threads,
    timeoutMs: backend.timeoutS * 1000,
    logPath,
    signal,
    env: variables,
  });
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
