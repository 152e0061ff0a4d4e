/** Chooses and starts the parts of a training run: environment, policy servers, and for each session a worker, a client and a publisher. */
import { PolicyVersions } from '../../clients/policy-versions.ts';
import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import { VllmTokensClient } from '../../clients/vllm-tokens.ts';
import { Disposers } from '../../core/disposers.ts';
import type { Environment } from '../../core/environment.ts';
import { Random } from '../../core/random.ts';
import { loadEnvironment } from '../../registry/load-environment.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { LoraServerPublisher } from '../../trainer/publisher/lora-server.ts';
import type { TrainingDirectory } from '../../trainer/training-directory.ts';
import type { TrainingObserver } from '../../trainer/training-observer.ts';
import type { TrainingRun, TrainingSession } from '../../trainer/training-session.ts';
import { assertTakesAdapters } from './assert-takes-adapters.ts';
import { checkPolicyProbe } from './check-policy-probe.ts';
import { openBackend } from './open-backend.ts';
import { openPolicyServers, type PolicyServer } from './open-policy-servers.ts';

export interface OpenTrainingOptions {
  readonly config: TrainingConfig;
  readonly directory: TrainingDirectory;
  /** Unique to this start of the process: part of every published name. */
  readonly attempt: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Collects values that must not be written or shown. */
  readonly secrets: Set<string>;
  readonly redact: (text: string) => string;
  readonly observer: TrainingObserver;
  readonly note: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface OpenedTraining extends AsyncDisposable {
  readonly run: TrainingRun;
  /** Notices for the user before the run. */
  readonly notices: readonly string[];
}

export async function openTraining(options: OpenTrainingOptions): Promise<OpenedTraining> {
  const { config, directory, attempt, redact, observer, signal } = options;
  await using opened = new Disposers();
  const { environment, evaluation } = await openEnvironments(options, opened);
  const server = opened.use(await openPolicyServers(options, environment));
  const probe = await checkedProbe(server, config, signal);
  if (config.policy.baseUrl !== null) await assertTakesAdapters(server, signal);
  let sessions = 0;
  const run: TrainingRun = {
    config,
    directory,
    environment,
    evaluation,
    servers: server.servers,
    openSession: (sessionSignal) =>
      openSession({ ...options, signal: sessionSignal }, { server, probe, name: `${attempt}${sessions++ === 0 ? '' : `-${sessions}`}` }),
    observer,
    redact,
  };
  const disposer = opened.move();
  return { run, notices: noticesFor(environment, evaluation), [Symbol.asyncDispose]: () => disposer.disposeAsync() };
}

async function openEnvironments(
  { config, variables, signal }: OpenTrainingOptions,
  opened: Disposers,
): Promise<{ environment: Environment; evaluation: Environment }> {
  const { id, args, eval_args: evalArgs } = { ...config.environment, eval_args: config.environment.evalArgs };
  const load = async (own: Readonly<Record<string, unknown>>, purpose: 'training' | 'evaluation') => {
    const environment = await loadEnvironment(id, own, { env: variables, signal, purpose });
    opened.defer(() => environment.close());
    return environment;
  };
  const environment = await load(args, 'training');
  const isOther = Object.keys(evalArgs).length > 0;
  return { environment, evaluation: isOther ? await load({ ...args, ...evalArgs }, 'evaluation') : environment };
}

async function checkedProbe(server: PolicyServer, config: TrainingConfig, signal: AbortSignal): Promise<PolicyProbe> {
  const { probeReplicas } = await import('../../clients/vllm-probe.ts');
  const { baseUrls, apiKey } = server;
  const probe = await probeReplicas({ baseUrls, model: server.model, signal, ...(apiKey === null ? {} : { apiKey }) });
  checkPolicyProbe(probe, config.rollouts.temperature);
  return probe;
}

async function openSession(
  { config, directory, variables, signal }: OpenTrainingOptions,
  { server, probe, name }: { readonly server: PolicyServer; readonly probe: PolicyProbe; readonly name: string },
): Promise<TrainingSession> {
  const { publish, rollouts, seed } = config;
  const { baseUrls, apiKey } = server;
  const key = apiKey === null ? {} : { apiKey };
  const random = Random.fromSeed(seed);
  await using opened = new Disposers();
  const backend = await openBackend({ config, embedded: server.embedded, logPath: directory.paths.workerLog, variables, signal });
  opened.defer(() => backend.close());
  const { model: servedModel, hasChatTemplate, chatOnlyBecause: _, ...capabilities } = probe;
  const versions = new PolicyVersions({ version: 0, model: servedModel });
  const client = new VllmTokensClient({
    baseUrls,
    versions,
    capabilities,
    hasChatTemplate,
    maxRetries: rollouts.maxRetries,
    maxConcurrentRequests: rollouts.maxConcurrent,
    random: random.fork('client'),
    sendsSeeds: server.embedded !== null,
    name: servedModel,
    ...key,
  });
  opened.defer(() => client.close());
  const publisher = new LoraServerPublisher({
    baseUrls,
    ...key,
    baseModel: servedModel,
    versions,
    adapter: backend.adapter,
    runName: name,
    adaptersDirectory: directory.paths.adapters,
    serverAdaptersDirectory: publish.serverAdapterDir,
    loadTimeoutMs: publish.loadTimeoutS * 1000,
    logProbsMode: probe.logProbsMode,
    random: random.fork('publisher'),
  });
  opened.defer(() => publisher.close());
  const parts = opened.move();
  return { backend, client, versions, publisher, name, [Symbol.asyncDispose]: () => parts.disposeAsync() };
}

function noticesFor(environment: Environment, evaluation: Environment): string[] {
  const notices = [...(environment.notices ?? [])];
  const same = evaluation.eval.length === environment.train.length && evaluation.eval.at(0).exampleId === environment.train.at(0).exampleId;
  if (same) notices.push('The held-out rows are the training rows; set environment.eval_args so that evaluations measure generalisation.');
  return notices;
}
