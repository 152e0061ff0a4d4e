/** Compares the memory of the GPUs with what the run needs, by the plan that the run makes. */
import { ConfigError } from '../core/errors.ts';
import type { GpuCard } from '../launch/gpu-cards.ts';
import { fitGpus, type GpuPlan } from '../launch/gpu-plan.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { gpuNeeds } from '../sessions/training/plan-gpus.ts';
import { gpuTable, stepLines } from '../reports/training/gpu-table.ts';
import { type Finding, missing, ok, skipped } from '../sessions/finding.ts';

export interface GpuCheckOptions {
  /** Null without nvidia-smi. */
  readonly cards: readonly GpuCard[] | null;
  /** Tokens of the longest rollout; null if unlimited or unknown. */
  readonly contextTokens: number | null;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** US dollars for one GPU and hour. @default null: no price is shown */
  readonly gpuPrice?: number | null;
}

/** Empty for a run that uses no GPU. */
export function checkGpus(config: TrainingConfig, { cards, contextTokens, variables }: GpuCheckOptions): Finding[] {
  const { kind, devices } = config.backend;
  const device = devices?.[0] ?? config.backend.device;
  if (kind !== 'torch' || device === 'cpu' || device === 'mps' || (cards === null && device === 'auto')) return [];
  const needs = gpuNeeds(config, { cards: cards ?? [], contextTokens, visible: variables['CUDA_VISIBLE_DEVICES'] });
  if ('why' in needs) {
    const remedy = 'name fewer devices or replicas, or make more GPUs visible (CUDA_VISIBLE_DEVICES)';
    return [needs.lacksCards ? missing('gpu memory', needs.why, remedy) : skipped('gpu memory', needs.why)];
  }
  const fit = fitGpus(needs);
  if (!('plan' in fit)) return [missing('gpu memory', fit.problem, fit.change)];
  const { worker, checkpointing, maxTokens, share, rollouts } = fit.plan;
  const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
  const server =
    share === null
      ? ''
      : `; vLLM gets ${share} of its GPU, for ${Math.min(...(rollouts ?? []))} rollouts of ${needs.contextTokens} tokens at once${(rollouts?.length ?? 0) > 1 ? ' in each replica' : ''}`;
  const how = `micro-batches of ${maxTokens} tokens, checkpointing ${checkpointing ? 'on' : 'off'}`;
  return [ok('gpu memory', `the worker needs about ${gib(worker.total)} (${how})${server}; vf-doctor --memory shows the parts`)];
}

/** vLLM's share on a GPU of this machine, for the command that starts it next to the worker; null if unknown. */
export function shareBeside(config: TrainingConfig, { cards, contextTokens, variables }: GpuCheckOptions): number | null {
  const launch = { python: 'python3', replicas: 1, tensorParallelSize: 1, args: [], env: {}, sleep: false, readyTimeoutS: 900, maxRestarts: 0 };
  const launched = { ...config, policy: { ...config.policy, baseUrl: null, launch } };
  const idle = (cards ?? []).map((card) => ({ ...card, usedBytes: 0 }));
  const needs = gpuNeeds(launched, { cards: idle, contextTokens, visible: variables['CUDA_VISIBLE_DEVICES'] });
  const fit = 'why' in needs ? null : fitGpus(needs);
  return fit !== null && 'plan' in fit ? fit.plan.share : null;
}

/** The table of `vf-doctor --memory`. Throws ConfigError if the run does not fit, or if its needs are unknown. */
export function memoryTable(config: TrainingConfig, { cards, contextTokens, variables, gpuPrice = null }: GpuCheckOptions): string {
  const { kind, device, devices } = config.backend;
  if (kind !== 'torch' || (devices ?? [device]).includes('cpu')) throw new ConfigError('This run uses no GPU.');
  const needs = gpuNeeds(config, { cards: cards ?? [], contextTokens, visible: variables['CUDA_VISIBLE_DEVICES'] });
  if ('why' in needs) {
    const others = needs.lacksCards || (cards ?? []).length === 0 ? ' To plan for other GPUs: --gpus 80 or --gpus 80,80 (GiB each).' : '';
    throw new ConfigError(`GPU memory is not planned: ${needs.why}.${others}`);
  }
  const fit = fitGpus(needs);
  if ('plan' in fit) return `${[...gpuTable(needs, fit.plan), ...stepLines(config, needs, gpuPrice), ...closing(config, fit.plan)].join('\n')}\n`;
  throw new ConfigError(`${fit.problem}. To make it fit, ${fit.change}.`);
}

function closing({ policy }: TrainingConfig, { worker }: GpuPlan): string[] {
  if (policy.launch !== null) return ['The run fits.'];
  const gib = (worker.total / 2 ** 30).toFixed(1);
  return [`The worker fits. The policy's server is not counted: on the worker's GPU, it must leave ${gib} GiB and a tenth free.`];
}

/** Cards of these sizes in GiB, `80,80`, for another machine. Throws ConfigError. */
export function assumedCards(sizes: string): readonly GpuCard[] {
  return sizes.split(',').map((size, index) => {
    const gib = Number(size);
    if (!(gib > 0) || !Number.isFinite(gib)) throw new ConfigError(`--gpus must be sizes in GiB, such as 80 or 80,80, got ${JSON.stringify(sizes)}`);
    return { index, uuid: `assumed-${index}`, name: 'assumed', totalBytes: gib * 2 ** 30, usedBytes: 0, driver: '' };
  });
}
