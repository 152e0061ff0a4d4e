/** Plans the GPU memory of a run before anything is loaded: reads the cards and the model's shape, and resolves the settings that the configuration leaves open. */
import { ConfigError } from '../../core/errors.ts';
import { cardOfDevice, type GpuCard, readGpuCards, visibleCards } from '../../launch/gpu-cards.ts';
import { ASSUMED_TOKENS, fitGpus, type GpuNeeds } from '../../launch/gpu-plan.ts';
import { GIB } from '../../launch/memory-estimate.ts';
import { type ExpertModel, type ModelShape, parameterCount, readExperts, readModelShape } from '../../launch/model-shape.ts';
import { flagValue } from '../../launch/vllm-flags.ts';
import { trainingConfigSchema, type TrainingConfig } from '../../schemas/training-config.ts';
import { gpuHoursOfStep, gpuTable, stepLines } from '../../reports/training/gpu-table.ts';

export interface PlannedRun {
  /** The configuration with `gradient_checkpointing` and `max_tokens` as the run uses them. */
  readonly config: TrainingConfig;
  /** Share of each of its cards for a vLLM that the run starts; null leaves it to vLLM. */
  readonly gpuShare: number | null;
  /** Lines for the user: the table, or the reason why there is none. Empty without a GPU. */
  readonly lines: readonly string[];
  /** Hours of all GPUs together that a step takes by estimate; absent or null if unknown. */
  readonly hoursPerStep?: number | null;
}

export interface PlanOptions {
  /** Tokens of the longest rollout; null if unlimited. */
  readonly contextTokens: number | null;
  /** CUDA_VISIBLE_DEVICES, and PATH for nvidia-smi. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** US dollars for one GPU and hour. @default null: no price is shown */
  readonly gpuPrice?: number | null;
  readonly signal: AbortSignal;
}

const DEFAULT_TOKENS = trainingConfigSchema.properties.backend.properties.max_tokens.default;

/**
 * Throws ConfigError, with the change that would help, if the run cannot fit. If the user chose checkpointing, micro-batch and vLLM's share, the estimate
 * only warns.
 */
export async function planGpus(config: TrainingConfig, { contextTokens, variables, gpuPrice = null, signal }: PlanOptions): Promise<PlannedRun> {
  const { kind, gradientCheckpointing } = config.backend;
  const [device] = workerDevices(config.backend);
  const resolved = (checkpointing: boolean, maxTokens = config.backend.maxTokens): TrainingConfig => ({
    ...config,
    backend: { ...config.backend, gradientCheckpointing: checkpointing, maxTokens },
  });
  const isOn = gradientCheckpointing === true;
  if (kind !== 'torch' || device === 'cpu' || device === 'mps') return { config: resolved(isOn), gpuShare: null, lines: [] };
  const cards = await readGpuCards({ env: variables, signal });
  if (cards === null && device === 'auto') return { config: resolved(isOn), gpuShare: null, lines: [] };
  const careful = resolved(gradientCheckpointing !== false);
  const needs = gpuNeeds(config, { cards: cards ?? [], contextTokens, visible: variables['CUDA_VISIBLE_DEVICES'] });
  if ('why' in needs) return { config: careful, gpuShare: null, lines: [`GPU memory was not planned: ${needs.why}`] };
  const fit = fitGpus(needs);
  if ('plan' in fit) {
    const { checkpointing, maxTokens, share } = fit.plan;
    // The configured number is for all workers together.
    const all = maxTokens < needs.maxTokens ? maxTokens * needs.workers.length : config.backend.maxTokens;
    return {
      config: resolved(checkpointing, all),
      gpuShare: share,
      lines: [...gpuTable(needs, fit.plan), ...stepLines(config, needs, gpuPrice)],
      hoursPerStep: gpuHoursOfStep(config, needs),
    };
  }
  const problem = `${fit.problem}. To make it fit, ${fit.change}.`;
  const isChosen = gradientCheckpointing !== 'auto' && needs.isMaxTokensChosen && (needs.servers.length === 0 || needs.givenShare !== null);
  if (!isChosen) throw new ConfigError(problem);
  return { config: careful, gpuShare: null, lines: [`By estimate, ${problem} The settings are used as given.`] };
}

export interface NeedsOptions {
  readonly cards: readonly GpuCard[];
  readonly contextTokens: number | null;
  /** CUDA_VISIBLE_DEVICES of this process. */
  readonly visible: string | undefined;
}

/** The reason why a run's needs cannot be compared with the cards. */
export interface NoPlan {
  readonly why: string;
  /** The run needs more cards than there are. */
  readonly lacksCards: boolean;
}

const unknown = (why: string): NoPlan => ({ why, lacksCards: false });

/** The run's needs of the cards. */
export function gpuNeeds(config: TrainingConfig, { cards, contextTokens, visible }: NeedsOptions): GpuNeeds | NoPlan {
  const { backend, lora, model, rollouts, policy } = config;
  if (cards.length === 0) return unknown('nvidia-smi lists no GPU with a known memory');
  const experts = readExperts(model.path);
  if (experts !== null) return unknown(expertsText(experts, backend.dtype === 'float32' ? 4 : 2));
  const shape = readModelShape(model.path);
  if (shape === null) return unknown(`the shape of ${model.path} is unknown; download it to a folder and set model.path to that`);
  if (visible?.includes('MIG-') === true)
    return unknown('CUDA_VISIBLE_DEVICES names a part of a GPU (MIG); set --gpu-memory-utilization in [policy.launch].args');
  const seen = visibleCards(cards, visible);
  const devices = workerDevices(backend);
  const workers = devices.flatMap((device) => cardOfDevice(device === 'auto' ? 'cuda' : device, seen) ?? []);
  if (workers.length < devices.length)
    return { why: `backend.device ${devices.join(', ')} is not among the ${seen.length} GPUs that this process sees`, lacksCards: seen.length > 0 };
  const servers = policy.launch === null ? [] : serverCards(policy.launch, cards, visible);
  if ('why' in servers) return servers;
  const given = policy.launch === null ? null : flagValue(policy.launch.args, '--gpu-memory-utilization');
  return {
    shape,
    rank: lora.rank,
    targets: lora.targets,
    bytesPerWeight: backend.dtype === 'float32' ? 4 : 2,
    checkpointing: backend.gradientCheckpointing,
    // A worker takes whole sequences, so at least the longest.
    maxTokens: Math.max(Math.ceil(backend.maxTokens / workers.length), Math.min(backend.maxTokens, contextTokens ?? ASSUMED_TOKENS)),
    isMaxTokensChosen: backend.maxTokens !== DEFAULT_TOKENS,
    contextTokens: contextTokens ?? ASSUMED_TOKENS,
    maxConcurrent: rollouts.maxConcurrent,
    workers,
    isDivided: isDivided(backend, workers, shape),
    servers,
    givenShare: given === null || !Number.isFinite(Number(given)) ? null : Number(given),
    takesTurns: policy.launch?.sleep ?? false,
    // Numbered as this process sees them, because a device's name (cuda:1) has that number.
    spare: seen
      .map((card, index) => ({ card, index }))
      .flatMap(({ card, index }) => (workers.includes(card) || servers.flat().includes(card) ? [] : { ...card, index })),
  };
}

function expertsText({ name, experts, parameters }: ExpertModel, bytesPerWeight: number): string {
  const size = parameters === null ? '' : `; its weights alone take ${((parameters * bytesPerWeight) / GIB).toFixed(1)} GiB`;
  return `${name} is a mixture of ${experts} experts, whose activations the plan does not count${size}`;
}

/** One device per worker. */
function workerDevices({ device, devices }: Pick<TrainingConfig['backend'], 'device' | 'devices'>): readonly [string, ...string[]] {
  const [first = device, ...others] = devices ?? [];
  return [first, ...others];
}

/** As in LARGEST_SHARE of sharding.py: `auto` divides a base that takes more than half of the free memory of a GPU. */
function isDivided({ sharding, dtype }: TrainingConfig['backend'], workers: readonly GpuCard[], shape: ModelShape): boolean {
  if (workers.length < 2 || sharding === 'none') return false;
  const free = Math.min(...workers.map(({ totalBytes, usedBytes }) => totalBytes - usedBytes));
  return sharding === 'full' || parameterCount(shape) * (dtype === 'float32' ? 4 : 2) > free / 2;
}

/** The cards of each vLLM, in order and none twice, as the launch divides them; or the reason why they are unknown. */
function serverCards(
  { args, env, replicas, tensorParallelSize }: NonNullable<TrainingConfig['policy']['launch']>,
  cards: readonly GpuCard[],
  visible: string | undefined,
): readonly (readonly GpuCard[])[] | NoPlan {
  const flag = Number(flagValue(args, '--tensor-parallel-size') ?? flagValue(args, '-tp') ?? tensorParallelSize);
  const each = Number.isInteger(flag) && flag > 0 ? flag : 1;
  const seen = visibleCards(cards, env['CUDA_VISIBLE_DEVICES'] ?? visible);
  if (seen.length < replicas * each) {
    if (seen.length === 0) return unknown('no GPU is visible to vLLM (CUDA_VISIBLE_DEVICES)');
    return {
      why: `[policy.launch] needs ${replicas * each} GPUs, but ${seen.length === 1 ? 'only one is' : `only ${seen.length} are`} visible to vLLM`,
      lacksCards: true,
    };
  }
  return Array.from({ length: replicas }, (_, i) => seen.slice(i * each, (i + 1) * each));
}
