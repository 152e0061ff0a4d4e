/**
 * Turns a training run's needs into vLLM's command line and environment. Pure: it reads no file and starts no process. Facts are about vLLM 0.32.0,
 * including its CPU build.
 */
import { ConfigError } from '../core/errors.ts';

export interface VllmNeeds {
  /** A Hugging Face directory or a hub id. */
  readonly modelPath: string;
  /** Name of the base model in requests. */
  readonly servedName: string;
  readonly loraRank: number;
  /** Number of steps by which a rollout's weights may lag behind; from 0. */
  readonly maxStaleness: number;
  /** Sampling temperature, above 0. */
  readonly temperature: number;
  /** Context length in tokens; null takes the model's own. */
  readonly maxModelLen: number | null;
  /** Share of each GPU that vLLM may use; null leaves it to vLLM, which takes 0.9. The CPU build has none. */
  readonly gpuShare: number | null;
  /** True if the server must be able to sleep. */
  readonly sleeps: boolean;
  /** True if weights change during a generation. @default false */
  readonly changesInFlight?: boolean;
  /** True if prompts contain images. @default false */
  readonly showsImages?: boolean;
  readonly port: number;
  readonly apiKey: string;
  /** Number of GPUs that hold the model together. @default 1 */
  readonly tensorParallelSize?: number;
  /** The GPUs of this server, as in CUDA_VISIBLE_DEVICES; null leaves the choice to vLLM. @default null */
  readonly devices?: readonly string[] | null;
  /** Number of servers that this machine runs at once. @default 1 */
  readonly replicas?: number;
  /** The user's own flags; they come last and take precedence. */
  readonly args: readonly string[];
  /** The user's own variables; they take precedence too. */
  readonly env: Readonly<Record<string, string>>;
}

export interface VllmHost {
  /** True if vLLM was built for the CPU. */
  readonly isCpuBuild: boolean;
  /** True if the model is a folder on this machine, so that the hub is not needed. */
  readonly isLocalModel: boolean;
  /** CPU cores that this process may use. */
  readonly cores: number;
  /** The environment that the server inherits. It overrides the tuning below, but not the settings that the run depends on. */
  readonly baseEnv: Readonly<Record<string, string | undefined>>;
}

export interface VllmCommand {
  /** Arguments of the Python: `-m vllm.entrypoints.openai.api_server ...`. They contain no secret, because anyone on the machine can list processes. */
  readonly args: readonly string[];
  /** The server's whole environment, including the API key. */
  readonly env: Readonly<Record<string, string>>;
}

/** vLLM's choices for --max-lora-rank. A larger value than needed costs time and memory for every token. */
const LORA_RANKS = [1, 8, 16, 32, 64, 128, 256, 320, 512];

/** Images in a prompt: twice as many as the longest episodes of the presets show. */
const MOST_IMAGES = 32;

/** The routes by token ids that say which weights sampled what. */
const SCALE_OUT = '--enable-scale-out';
/** The route that takes token ids and images belongs to the scale-out routes. Without videos, no memory is kept for them. */
export const IMAGE_FLAGS: readonly string[] = [SCALE_OUT, `--limit-mm-per-prompt={"image": ${MOST_IMAGES}, "video": 0}`];

/** Settings that the run needs to find and trust its server, so users cannot change them. */
const OWN_FLAGS = ['--host', '--port', '--uds', '--api-key', '--model', '--served-model-name', '--root-path', '--ssl-keyfile', '--ssl-certfile'];
const OWN_VARIABLES = ['VLLM_API_KEY', 'VLLM_ALLOW_RUNTIME_LORA_UPDATING'];

/** Throws ConfigError for a rank that vLLM does not serve, and for flags and variables that the run sets itself. */
export function vllmCommand(needs: VllmNeeds, host: VllmHost): VllmCommand {
  assertNotOurs(needs);
  return { args: ['-m', 'vllm.entrypoints.openai.api_server', ...impliedFlags(needs, host), ...needs.args], env: environmentOf(needs, host) };
}

/** The smallest --max-lora-rank that serves adapters of this rank. */
export function maxLoraRank(rank: number): number {
  const allowed = LORA_RANKS.find((limit) => limit >= rank);
  if (allowed !== undefined && Number.isInteger(rank) && rank >= 1) return allowed;
  throw new ConfigError(`[lora].rank must be a whole number from 1 to ${LORA_RANKS.at(-1)}, the ranks that vLLM serves, got ${rank}.`);
}

function impliedFlags(needs: VllmNeeds, { isCpuBuild }: VllmHost): string[] {
  const {
    modelPath,
    servedName,
    port,
    loraRank,
    maxStaleness,
    temperature,
    maxModelLen,
    gpuShare,
    sleeps,
    showsImages = false,
    changesInFlight = false,
    tensorParallelSize = 1,
  } = needs;
  // One version per step of lag, the current one, and the next one while it is checked.
  const versions = maxStaleness + 2;
  return [
    `--model=${modelPath}`,
    `--served-model-name=${servedName}`,
    '--host=127.0.0.1',
    `--port=${port}`,
    '--enable-lora',
    `--max-lora-rank=${maxLoraRank(loraRank)}`,
    `--max-loras=${versions}`,
    // Unloaded adapters stay in the CPU cache until their place is needed, so the cache holds twice as many.
    `--max-cpu-loras=${2 * versions}`,
    // The model's own sampling defaults would filter sampling, while log-probs describe the unfiltered distribution.
    '--generation-config=vllm',
    // Raw log-probs ignore the temperature, so the trainer can compare them only at temperature 1.
    ...(temperature === 1 ? [] : ['--logprobs-mode=processed_logprobs']),
    ...(maxModelLen === null ? [] : [`--max-model-len=${maxModelLen}`]),
    ...(gpuShare === null || isCpuBuild ? [] : [`--gpu-memory-utilization=${gpuShare}`]),
    ...(sleeps ? ['--enable-sleep-mode'] : []),
    ...(showsImages ? IMAGE_FLAGS : changesInFlight ? [SCALE_OUT] : []),
    ...(tensorParallelSize === 1 ? [] : [`--tensor-parallel-size=${tensorParallelSize}`]),
    '--enable-prompt-tokens-details',
    // A line per request would make the log gigabytes large.
    '--disable-uvicorn-access-log',
    // With float32, log-probs agree to 1e-6. Compiling for the CPU takes longer than a small model gains from it.
    ...(isCpuBuild ? ['--dtype=float32', '--enforce-eager'] : []),
  ];
}

/** The value of one of vLLM's flags among `args`, as `--name=value` or `--name value`; null if it is not there. */
export function flagValue(args: readonly string[], name: string): string | null {
  const at = args.findLastIndex((arg) => arg.replaceAll('_', '-').replace(/=.*/s, '') === name);
  if (at === -1) return null;
  return args[at]!.includes('=') ? args[at]!.replace(/^[^=]*=/s, '') : (args[at + 1] ?? null);
}

function environmentOf(
  { apiKey, env, sleeps, changesInFlight = false, devices = null, replicas = 1 }: VllmNeeds,
  { isCpuBuild, isLocalModel, cores, baseEnv }: VllmHost,
): Record<string, string> {
  const inherited = Object.entries(baseEnv).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return {
    VLLM_NO_USAGE_STATS: '1',
    ...(isLocalModel ? { HF_HUB_OFFLINE: '1' } : {}),
    // 1 GiB of KV cache suffices for small models, and a CPU serves no others. Half of the cores are left to the trainer's worker.
    ...(isCpuBuild ? { VLLM_CPU_KVCACHE_SPACE: '1', OMP_NUM_THREADS: String(Math.max(1, Math.floor(cores / 2 / replicas))) } : {}),
    // Otherwise every server binds its threads to the same cores.
    ...(isCpuBuild && replicas > 1 ? { VLLM_CPU_OMP_THREADS_BIND: 'nobind' } : {}),
    ...Object.fromEntries(inherited),
    ...env,
    // The routes /sleep and /wake_up, /pause and /resume exist only in this mode.
    ...(sleeps || changesInFlight ? { VLLM_SERVER_DEV_MODE: '1' } : {}),
    VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1',
    VLLM_API_KEY: apiKey,
    ...(devices === null ? {} : { CUDA_VISIBLE_DEVICES: devices.join(',') }),
  };
}

function assertNotOurs({ args, env }: VllmNeeds): void {
  const spelled = args.map((arg) => arg.replace(/=.*/s, '').replaceAll('_', '-'));
  const flag = spelled.find((arg) => OWN_FLAGS.includes(arg));
  const variable = OWN_VARIABLES.find((name) => Object.hasOwn(env, name));
  if (spelled.some((arg) => arg === '--tensor-parallel-size' || arg === '-tp'))
    throw new ConfigError(
      '[policy.launch].args must not set --tensor-parallel-size: the run divides the GPUs by it. Set [policy.launch].tensor_parallel_size.',
    );
  const [table, name] = flag === undefined ? (['env', variable] as const) : (['args', flag] as const);
  if (name === undefined) return;
  throw new ConfigError(
    `[policy.launch].${table} must not set ${name}: the run sets it to find its server. To choose it, start the server yourself and set [policy].base_url.`,
  );
}
