/** Opens the policy servers: running ones, those that this run starts, or the in-process engine. */
import { randomBytes } from 'node:crypto';
import { basename } from 'node:path';
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import { LaunchedServers } from '../../launch/launched-servers.ts';
import { RemoteServers } from '../../launch/remote-servers.ts';
import { launchReplicas } from '../../launch/launch-replicas.ts';
import { SleepTurns } from '../../launch/sleep-turns.ts';
import { NO_POLICY_SERVER } from '../../trainer/config/check-config.ts';
import type { PolicyServers } from '../../trainer/weight-publisher.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { EmbeddedPolicy, logProbsModeFor } from '../policy/embedded-policy.ts';
import type { OpenTrainingOptions } from './open-training.ts';
import { reviveInTurn } from './take-turns.ts';
import { openTinkerService, reviveTinker, type TinkerService } from './tinker-service.ts';

/** Minimum of pending requests at the embedded server, because probes run at the same time as the rollouts. */
const LEAST_PENDING = 1024;
/** The time that a server that the run did not start may be down before the run gives up. */
const REMOTE_DEADLINE_MS = 30 * 60_000;

export interface PolicyServer extends AsyncDisposable {
  readonly servers: PolicyServers;
  readonly baseUrls: readonly string[];
  readonly apiKey: string | null;
  /** The server's name for the base; null for its only model. */
  readonly model: string | null;
  /** The service that samples and trains; absent if a server of adapters samples. */
  readonly tinker?: TinkerService;
  /** The in-process policy; null if another process samples. */
  readonly embedded: EmbeddedPolicy | null;
  /** Puts a server that shares its GPU with the worker to sleep; null if it never sleeps. */
  readonly turns: SleepTurns | null;
}

interface ServersOptions extends OpenTrainingOptions {
  /** vLLM's share of each of its GPUs; null leaves it to vLLM. */
  readonly gpuShare: number | null;
}

/** `playsRoles`: the policy also plays roles of the environment, whose prompts may be longer than its limits. `showsImages`: the policy must see images. */
export async function openPolicyServers(
  options: ServersOptions,
  environment: Environment,
  { playsRoles, showsImages }: { readonly playsRoles: boolean; readonly showsImages: boolean },
): Promise<PolicyServer> {
  if (options.config.backend.kind === 'tinker') return tinkerServer(options);
  const { launch, embedded } = options.config.policy;
  const maxModelLen = playsRoles ? null : longestRollout(environment, options.config.model.path);
  if (embedded !== null) return embeddedServers(options, embedded, maxModelLen);
  return launch === null ? remoteServers(options) : launchedServers(options, launch, { maxModelLen, showsImages });
}

async function tinkerServer(options: OpenTrainingOptions): Promise<PolicyServer> {
  const tinker = await openTinkerService(options);
  const { url } = tinker.connection;
  return {
    servers: { replicas: [url], revive: (_, signal) => reviveTinker(tinker, signal) },
    baseUrls: [url],
    apiKey: null,
    model: tinker.baseModel,
    tinker,
    embedded: null,
    turns: null,
    [Symbol.asyncDispose]: () => tinker[Symbol.asyncDispose](),
  };
}

async function embeddedServers(
  { config, secrets, note, signal }: OpenTrainingOptions,
  { threads, cacheTokens, maxRestarts }: NonNullable<OpenTrainingOptions['config']['policy']['embedded']>,
  maxModelLen: number | null,
): Promise<PolicyServer> {
  const { model, policy, backend, rollouts } = config;
  const servedName = policy.model ?? basename(model.path);
  const threadCount = threads ?? (backend.kind === 'embedded' ? backend.threads : null);
  const embedded = await EmbeddedPolicy.open({
    engine: {
      modelPath: model.path,
      ...(threadCount === null ? {} : { threads: threadCount }),
      ...(maxModelLen === null ? {} : { maxModelLen }),
      ...(cacheTokens === null ? {} : { cacheTokens }),
      maxPending: Math.max(LEAST_PENDING, 2 * rollouts.maxConcurrent),
    },
    servedName,
    logProbsMode: logProbsModeFor(rollouts.temperature),
    maxRestarts,
    onEvent: note,
    signal,
  });
  const { baseUrl, apiKey } = embedded;
  secrets.add(apiKey);
  return {
    servers: embedded,
    baseUrls: [baseUrl],
    apiKey,
    model: servedName,
    embedded,
    turns: null,
    [Symbol.asyncDispose]: () => embedded[Symbol.asyncDispose](),
  };
}

async function remoteServers({ config, variables, secrets, note }: OpenTrainingOptions): Promise<PolicyServer> {
  const { baseUrl, apiKeyVar, model } = config.policy;
  const baseUrls = baseUrl === null ? [] : typeof baseUrl === 'string' ? [baseUrl] : baseUrl;
  if (baseUrls.length === 0) throw new ConfigError(NO_POLICY_SERVER);
  const apiKey = apiKeyVar === null ? null : (variables[apiKeyVar] ?? null);
  if (apiKeyVar !== null && !apiKey)
    throw new ConfigError(`The environment variable ${apiKeyVar} holds no API key; set it or leave policy.api_key_var out`);
  if (apiKey !== null) secrets.add(apiKey);
  const servers = new RemoteServers({ baseUrls, deadlineMs: REMOTE_DEADLINE_MS, onEvent: note, ...(apiKey === null ? {} : { apiKey }) });
  return { servers, baseUrls, apiKey, model, embedded: null, turns: null, [Symbol.asyncDispose]: () => servers[Symbol.asyncDispose]() };
}

async function launchedServers(
  { config, directory, variables, secrets, note, signal, gpuShare }: ServersOptions,
  launch: NonNullable<OpenTrainingOptions['config']['policy']['launch']>,
  { maxModelLen, showsImages }: { readonly maxModelLen: number | null; readonly showsImages: boolean },
): Promise<PolicyServer> {
  const apiKey = randomBytes(24).toString('base64url');
  secrets.add(apiKey);
  const servedName = config.policy.model ?? basename(config.model.path);
  const processes = await launchReplicas({
    python: launch.python,
    modelPath: config.model.path,
    servedName,
    replicas: launch.replicas,
    tensorParallelSize: launch.tensorParallelSize,
    loraRank: config.lora.rank,
    maxStaleness: config.rollouts.maxStaleness,
    temperature: config.rollouts.temperature,
    maxModelLen,
    gpuShare,
    sleeps: launch.sleep,
    showsImages,
    changesInFlight: config.publish.inFlight,
    args: launch.args,
    env: launch.env,
    baseEnv: variables,
    logPath: (i) => (i === 0 ? directory.paths.policyLog : directory.paths.policyLog.replace(/\.log$/, `-${i + 1}.log`)),
    readyTimeoutMs: launch.readyTimeoutS * 1000,
    apiKey,
    onProgress: throttled(note),
    signal,
  });
  const servers = new LaunchedServers({ processes, maxRestarts: launch.maxRestarts, onEvent: note });
  const turns = launch.sleep ? new SleepTurns({ baseUrl: processes[0]!.baseUrl, apiKey }) : null;
  return {
    servers: turns === null ? servers : reviveInTurn(servers, turns),
    baseUrls: processes.map((process) => process.baseUrl),
    apiKey,
    model: servedName,
    embedded: null,
    turns,
    async [Symbol.asyncDispose]() {
      await turns?.[Symbol.asyncDispose]();
      await Promise.all(processes.map((process) => process.stop()));
    },
  };
}

/** The environment's longest context plus one generation, at most the model's limit; null leaves it to the model. */
export function longestRollout({ limits }: Pick<Environment, 'limits'>, modelPath: string): number | null {
  const window = limits.contextTokens + limits.responseTokens;
  if (!Number.isFinite(window)) return null;
  const { contextLength: longest } = modelFacts(modelPath);
  return longest === null ? window : Math.min(window, longest);
}

/** A server can load a model for minutes and reports progress every few seconds. */
const PROGRESS_MS = 30_000;

function throttled(note: (line: string) => void): (line: string) => void {
  let notedAtMs = -Infinity;
  return (line) => {
    if (performance.now() - notedAtMs < PROGRESS_MS) return;
    notedAtMs = performance.now();
    note(line);
  };
}
