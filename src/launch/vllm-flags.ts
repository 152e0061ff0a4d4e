/**
 * From what a training run needs of its server to vLLM's command line and environment. Pure: no file is looked at, no process started. Facts about vLLM
 * are of 0.32.0, its CPU build among them.
 */
import { ConfigError } from '../core/errors.ts';

export interface VllmNeeds {
  /** A Hugging Face directory or a hub id. */
  readonly modelPath: string;
  /** The base model as requests call it. */
  readonly servedName: string;
  readonly loraRank: number;
  /** Steps that a rollout's weights may be behind. From 0 up. */
  readonly maxStaleness: number;
  /** Of sampling. Above 0. */
  readonly temperature: number;
  /** Window in tokens; null leaves it to the model's own config. */
  readonly maxModelLen: number | null;
  readonly port: number;
  readonly apiKey: string;
  /** The user's own flags: set last, so that they win. */
  readonly args: readonly string[];
  /** The user's own variables: they win too. */
  readonly env: Readonly<Record<string, string>>;
}

export interface VllmHost {
  /** vLLM was built for the CPU. */
  readonly isCpuBuild: boolean;
  /** The model is a folder of this machine, so nothing is asked of the hub. */
  readonly isLocalModel: boolean;
  /** CPU cores that this process may use. */
  readonly cores: number;
  /** What the server would inherit. Wins over the tuning below, never over what the run depends on. */
  readonly baseEnv: Readonly<Record<string, string | undefined>>;
}

export interface VllmCommand {
  /** After the Python: `-m vllm.entrypoints.openai.api_server ...`. Holds no secret: anyone on the machine can list processes. */
  readonly args: readonly string[];
  /** The whole environment of the server, API key included. */
  readonly env: Readonly<Record<string, string>>;
}

/** vLLM's choices of --max-lora-rank. A larger one than needed costs time and memory with every token. */
const LORA_RANKS = [1, 8, 16, 32, 64, 128, 256, 320, 512];

/** What a run could not find or trust its server by if it were changed. */
const OWN_FLAGS = ['--host', '--port', '--uds', '--api-key', '--model', '--served-model-name', '--root-path', '--ssl-keyfile', '--ssl-certfile'];
const OWN_VARIABLES = ['VLLM_API_KEY', 'VLLM_ALLOW_RUNTIME_LORA_UPDATING'];

/** Throws ConfigError for a rank that vLLM does not serve, and for flags and variables that are the run's own affair. */
export function vllmCommand(needs: VllmNeeds, host: VllmHost): VllmCommand {
  assertNotOurs(needs);
  return { args: ['-m', 'vllm.entrypoints.openai.api_server', ...impliedFlags(needs, host), ...needs.args], env: environmentOf(needs, host) };
}

/** The smallest --max-lora-rank that serves adapters of this rank. */
export function maxLoraRank(rank: number): number {
  const allowed = LORA_RANKS.find((limit) => limit >= rank);
  if (allowed !== undefined && Number.isInteger(rank) && rank >= 1) return allowed;
  throw new ConfigError(`Expected [lora].rank to be a whole number from 1 to ${LORA_RANKS.at(-1)}, for vLLM serves no other, got ${rank}`);
}

function impliedFlags(needs: VllmNeeds, { isCpuBuild }: VllmHost): string[] {
  const { modelPath, servedName, port, loraRank, maxStaleness, temperature, maxModelLen } = needs;
  // One version for each step that rollouts may lag behind, the current one, and the next one while it is checked.
  const versions = maxStaleness + 2;
  return [
    `--model=${modelPath}`,
    `--served-model-name=${servedName}`,
    '--host=127.0.0.1',
    `--port=${port}`,
    '--enable-lora',
    `--max-lora-rank=${maxLoraRank(loraRank)}`,
    `--max-loras=${versions}`,
    // Adapters that were unloaded keep their place in the CPU's cache until it is needed: room for as many again.
    `--max-cpu-loras=${2 * versions}`,
    // The model's own sampling defaults would cut the distribution that log-probs are told of.
    '--generation-config=vllm',
    // Raw ones are taken before the temperature: at 1 both are the same, elsewhere the trainer could not compare.
    ...(temperature === 1 ? [] : ['--logprobs-mode=processed_logprobs']),
    ...(maxModelLen === null ? [] : [`--max-model-len=${maxModelLen}`]),
    '--enable-prompt-tokens-details',
    // A line for every request would make a log of gigabytes.
    '--disable-uvicorn-access-log',
    // float32 makes log-probs comparable to 1e-6; compiling for the CPU takes longer than a small model gains from it.
    ...(isCpuBuild ? ['--dtype=float32', '--enforce-eager'] : []),
  ];
}

function environmentOf({ apiKey, env }: VllmNeeds, { isCpuBuild, isLocalModel, cores, baseEnv }: VllmHost): Record<string, string> {
  const inherited = Object.entries(baseEnv).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return {
    VLLM_NO_USAGE_STATS: '1',
    ...(isLocalModel ? { HF_HUB_OFFLINE: '1' } : {}),
    // The trainer's worker needs the other half. Gibibytes of KV cache: enough for small models, which are all that a CPU serves.
    ...(isCpuBuild ? { VLLM_CPU_KVCACHE_SPACE: '1', OMP_NUM_THREADS: String(Math.max(1, Math.floor(cores / 2))) } : {}),
    ...Object.fromEntries(inherited),
    ...env,
    VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1',
    VLLM_API_KEY: apiKey,
  };
}

function assertNotOurs({ args, env }: VllmNeeds): void {
  const spelled = args.map((arg) => arg.replace(/=.*/s, '').replaceAll('_', '-'));
  const flag = spelled.find((arg) => OWN_FLAGS.includes(arg));
  const variable = OWN_VARIABLES.find((name) => Object.hasOwn(env, name));
  const [table, name] = flag === undefined ? (['env', variable] as const) : (['args', flag] as const);
  if (name === undefined) return;
  throw new ConfigError(
    `Expected [policy.launch].${table} to leave ${name} to the run, which must find its server; start the server yourself and set [policy].base_url to have it otherwise`,
  );
}
