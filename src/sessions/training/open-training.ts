/** Chooses and starts the parts of a training run: environment, policy servers, and for each session a worker, a client and a publisher. */
import { gatewayOf } from '../agent-gateway.ts';
import type { PolicyClient } from '../../clients/policy-client.ts';
import { PolicyVersions } from '../../clients/policy-versions.ts';
import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import { VllmTokensClient } from '../../clients/vllm-tokens.ts';
import { Disposers } from '../../core/disposers.ts';
import type { VfError } from '../../core/errors.ts';
import type { Environment } from '../../core/environment.ts';
import type { Message } from '../../core/message.ts';
import { Random } from '../../core/random.ts';
import { firstRow } from '../../core/training-rows.ts';
import { LazyModels } from '../../models/lazy-models.ts';
import { assertPlayable, showsImages } from '../../rollouts/assert-playable.ts';
import type { CreditFactory } from '../../trainer/credit.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { serverAdapterDir } from '../../trainer/config/server-adapter-dir.ts';
import { clipNotice } from '../../trainer/config/clip-notice.ts';
import { LoraServerPublisher } from '../../trainer/publisher/lora-server.ts';
import { rehearsePublish } from '../../trainer/publisher/rehearse-publish.ts';
import { probePrompt } from '../../trainer/publisher/probe-prompt.ts';
import type { TrainingDirectory } from '../../trainer/records/training-directory.ts';
import type { TrainingObserver } from '../../trainer/training-observer.ts';
import type { TrainingRun, TrainingSession } from '../../trainer/training-session.ts';
import { type OpenedRoles, openRoles, type RolePolicy } from '../roles/open-roles.ts';
import { trainingPrices } from '../policy/run-prices.ts';
import { secretsOf } from '../policy/secrets.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { assertChangesInFlight, assertTakesAdapters, checkPolicyProbe } from './check-policy-server.ts';
import { assertFits } from './assert-trainable.ts';
import { checkTraining } from './check-training.ts';
import { type EvaluationLabel, evaluatedRows } from '../../reports/training/evaluation-label.ts';
import { assertReadsImages, assertWorkerStarts, openBackend } from './open-backend.ts';
import { openEnvironments } from '../environment/open-environment.ts';
import { openPolicyServers, type PolicyServer } from './open-policy-servers.ts';
import { openTinkerSession } from './open-tinker-session.ts';
import { isUnserved, openUnservedSession, UNSERVED_POLICY, unservedServers } from './open-supervised-training.ts';
import { recallAsked } from '../roles/recall-asked.ts';
import { evaluationNotices } from './evaluation-notices.ts';
import { withSeedRows } from './seed-rows.ts';
import { promptNotices } from './prompt-findings.ts';
import { takeTurns } from './take-turns.ts';
import { openTeacher } from './teacher/open-teacher.ts';
import { ServiceBill } from './service-bill.ts';
import { trainingCost, type TrainingPayments } from './training-cost.ts';

export interface OpenTrainingOptions {
  readonly config: TrainingConfig;
  /** What a resume changed. @default nothing */
  readonly changed?: Pick<TrainingRun, 'changes' | 'evaluationSetup' | 'isEvaluatedAgain' | 'isUpdatedOtherwise'>;
  readonly directory: TrainingDirectory;
  /** An environment that is already loaded, and that stays open. @default the one that the configuration names */
  readonly environment?: Environment;
  /** The caller's own credit. @default the one that the configuration names */
  readonly credit?: CreditFactory;
  /** The caller chooses the rows of each step, of which there may be any number. @default false */
  readonly choosesRows?: boolean;
  /** Unique to this start of the process: part of every published name. */
  readonly attempt: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Collects values that must not be written or shown. */
  readonly secrets: Set<string>;
  readonly redact: (text: string) => string;
  readonly observer: TrainingObserver;
  readonly note: (line: string) => void;
  /** Takes a line about something that went wrong or was left out. */
  readonly warn: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface OpenedTraining extends AsyncDisposable {
  readonly run: TrainingRun;
  /** The models other than the policy; empty if the environment has no roles. */
  readonly roles: OpenedRoles;
  /** What they and a training service cost. */
  readonly payments: TrainingPayments;
  readonly evaluationLabel: EvaluationLabel;
  /** Number of rows of the evaluation environment. */
  readonly evaluationRows: number;
  /** Notices for the user before the run. */
  readonly notices: readonly string[];
}

export async function openTraining(asked: OpenTrainingOptions): Promise<OpenedTraining> {
  const given = { ...asked, config: await withSeedRows(asked) };
  const { directory, attempt, variables, redact, observer, note, warn, signal, changed = {} } = given;
  await using opened = new Disposers();
  const lazy = [new LazyModels(), new LazyModels()] as const;
  const { environment, evaluation } =
    given.environment === undefined ? await openEnvironments(given, opened, lazy) : { environment: given.environment, evaluation: given.environment };
  const checked = await checkTraining(given.config, { ...given, environment, evaluation, hasModule: given.environment === undefined });
  const { planned, roles: declared } = checked;
  for (const secret of secretsOf({ roles: declared })) given.secrets.add(secret);
  if (checked.adapter?.notice) warn(checked.adapter.notice);
  for (const line of planned.lines) note(line);
  const { config } = planned;
  const options = { ...given, config, gpuShare: planned.gpuShare };
  const teacher = await openTeacher({ ...options, environment }, opened);
  const taught = teacher === null ? {} : { teacher };
  const common = { config, ...changed, directory, environment, evaluation, observer, redact, ...checked.joints, ...taught };
  const evaluated = evaluatedRows(environment, evaluation, config.evaluation.examples);
  const { label } = evaluated;
  if (isUnserved(config)) {
    const roles = opened.use(await openRoles([], { policy: UNSERVED_POLICY, onNotice: note, secrets: options.secrets, signal }));
    const openUnserved = (name: string, sessionSignal: AbortSignal) => openUnservedSession({ ...options, signal: sessionSignal }, name);
    const unserved = { ...common, servers: unservedServers, openSession: named(attempt, openUnserved) };
    return openedTraining(
      {
        run: unserved,
        roles,
        payments: { prices: null, bill: null },
        label,
        notices: [...evaluationNotices(environment, null, config), NO_EVALUATION],
      },
      opened,
    );
  }
  if (config.policy.launch !== null) await assertWorkerStarts(config, { variables, signal });
  const images = [environment, evaluation].some(showsImages);
  const playsRoles = declared.some(({ player }) => player.kind === 'policy');
  const server = opened.use(await openPolicyServers(options, environment, { playsRoles, showsImages: images }));
  const { probe, present } = await checkedProbe(server, { ...options, images });
  for (const each of new Set([environment, evaluation])) assertPlayable(each, { name: probe.model, capabilities: probe });
  assertFits(config.rollouts.maxTokens, probe.maxModelLen, `${probe.model} at the policy server`);
  if (config.policy.baseUrl !== null) await assertTakesAdapters({ ...server, baseUrls: present }, signal);
  if (config.publish.inFlight) await assertChangesInFlight({ ...server, baseUrls: present }, signal);
  const key = server.apiKey === null ? {} : { apiKey: server.apiKey };
  // Before the models of the roles can be called.
  const crowded = await promptNotices({ config, environment, evaluation, baseUrls: present, probe, signal, ...key });
  let client: PolicyClient | null = null;
  const roles = opened.use(
    await openRoles(declared, {
      policy: trainedPolicy(probe, () => client!),
      onNotice: warn,
      secrets: options.secrets,
      signal,
    }),
  );
  for (const models of lazy) models.bind(roles.models.models);
  const prices = await trainingPrices({ roles: declared, players: roles.players }, config.guards.maxCost);
  const { servicePrice: price } = checked;
  const bill =
    server.tinker === undefined || price === null
      ? null
      : opened.use(await ServiceBill.open({ path: directory.paths.serviceTokens, price, meter: server.tinker.connection.meter }));
  const payments = { prices, bill };
  const recalled = declared.length === 0 ? [] : await recallAsked(directory, { roles, config });
  const gateway = await gatewayOf(new Set([environment, evaluation]));
  if (gateway !== null) opened.use(gateway);
  const run: TrainingRun = {
    ...common,
    servers: server.servers,
    ...(gateway === null ? {} : { gateway }),
    ...(declared.length === 0 ? {} : { models: roles.models }),
    ...(bill === null ? {} : { recordService: () => bill.record() }),
    ...(prices === null && bill === null ? {} : { spentUsd: () => trainingCost(roles.models.stats, payments)?.usd ?? null }),
    openSession: named(attempt, async (name, sessionSignal, isFirst) => {
      const checkedPrompt = isFirst ? firstRow(environment).prompt : null;
      const session = await openSession({ ...options, signal: sessionSignal }, { server, probe, name, checkedPrompt, environment });
      client = session.client;
      return session;
    }),
  };
  return openedTraining(
    { run, roles, payments, label, notices: [...evaluationNotices(environment, evaluated, config), ...crowded, ...roles.notices, ...recalled] },
    opened,
  );
}

type OpenNamed = (name: string, signal: AbortSignal, isFirst: boolean) => Promise<TrainingSession>;

/** Gives every session of a process a name of its own. */
function named(attempt: string, open: OpenNamed): TrainingRun['openSession'] {
  let sessions = 0;
  return (signal) => {
    sessions++;
    return open(sessions === 1 ? attempt : `${attempt}-${sessions}`, signal, sessions === 1);
  };
}

interface Made extends Pick<OpenedTraining, 'run' | 'roles' | 'payments' | 'notices'> {
  readonly label: EvaluationLabel;
}

function openedTraining({ run, roles, payments, label, notices }: Made, opened: Disposers): OpenedTraining {
  const disposer = opened.move();
  const clip = clipNotice(run.config, run.createSource !== undefined);
  return {
    run,
    roles,
    payments,
    evaluationLabel: label,
    evaluationRows: run.evaluation.eval.length,
    notices: [...notices, ...(clip === null ? [] : [clip])],
    [Symbol.asyncDispose]: () => disposer.disposeAsync(),
  };
}

const NO_EVALUATION = 'Nothing is evaluated, because this run has no policy server; set policy.base_url, [policy.launch] or [policy.embedded].';

/** Each session has its own client, so `client` returns the current one. */
function trainedPolicy(probe: PolicyProbe, client: () => PolicyClient): RolePolicy {
  return { name: probe.model, client, capabilities: probe };
}

/** A replica that is down while others serve joins the run when it answers, as does one that goes down later. */
async function checkedProbe(
  server: PolicyServer,
  { images, config, warn, signal }: Pick<OpenTrainingOptions, 'config' | 'warn' | 'signal'> & { readonly images: boolean },
): Promise<CheckedProbe> {
  if (server.tinker !== undefined) return { probe: server.tinker.probe, present: server.baseUrls };
  const { probeReplicas } = await import('../../clients/vllm-probe.ts');
  const { baseUrls, apiKey } = server;
  const absent = new Set<string>();
  const onAbsent = (baseUrl: string, { message }: VfError) => {
    absent.add(baseUrl);
    warn(`one of ${baseUrls.length} policy servers does not answer. The run begins without it and uses it once it does: ${message}`);
  };
  const key = apiKey === null ? {} : { apiKey };
  const probe = await probeReplicas({ baseUrls, model: server.model, images, signal, quorum: config.publish.quorum, onAbsent, ...key });
  checkPolicyProbe(probe, config.rollouts.temperature);
  return { probe, present: baseUrls.filter((baseUrl) => !absent.has(baseUrl)) };
}

interface CheckedProbe {
  readonly probe: PolicyProbe;
  /** Base URLs of the replicas that answer. */
  readonly present: readonly string[];
}

interface SessionParts {
  readonly server: PolicyServer;
  readonly probe: PolicyProbe;
  readonly name: string;
  /** Trainer and server must agree on its log-probs; null if an earlier session has compared them. */
  readonly checkedPrompt: readonly Message[] | null;
  readonly environment: Pick<Environment, 'id' | 'needs' | 'images'>;
}

async function openSession(
  { config, directory, variables, note, warn, signal }: OpenTrainingOptions,
  { server, probe, name, checkedPrompt, environment }: SessionParts,
): Promise<TrainingSession> {
  if (server.tinker !== undefined) return openTinkerSession({ config, service: server.tinker, name, note, signal });
  const { publish, rollouts, seed } = config;
  const { baseUrls, apiKey } = server;
  const key = apiKey === null ? {} : { apiKey };
  const shown = environment.images === undefined ? {} : { images: environment.images };
  const random = Random.fromSeed(seed);
  await using opened = new Disposers();
  const backend = await openBackend({ config, embedded: server.embedded, paths: directory.paths, variables, signal });
  opened.defer(() => backend.close());
  assertReadsImages(backend, environment, config);
  const { model: servedModel, hasChatTemplate, chatOnlyBecause: _, chatsWithImages: __, ...capabilities } = probe;
  const versions = new PolicyVersions({ version: 0, model: servedModel }, { isInFlight: publish.inFlight });
  const client = new VllmTokensClient({
    baseUrls,
    versions,
    capabilities: { ...capabilities, isEmbedded: server.embedded !== null },
    hasChatTemplate,
    maxRetries: rollouts.maxRetries,
    maxConcurrentRequests: rollouts.maxConcurrent,
    random: random.fork('client'),
    sendsSeeds: server.embedded !== null,
    vocabularySize: modelFacts(config.model.path).vocabularySize,
    name: servedModel,
    ...shown,
    ...key,
  });
  opened.defer(() => client.close());
  const publisher = new LoraServerPublisher({
    baseUrls,
    ...key,
    baseModel: servedModel,
    versions,
    adapter: backend.adapter,
    adaptersDirectory: directory.paths.adapters,
    serverAdaptersDirectory: serverAdapterDir(publish.serverAdapterDir, directory.path),
    loadTimeoutMs: publish.loadTimeoutS * 1000,
    quorum: publish.quorum,
    logProbsMode: probe.logProbsMode,
    random: random.fork('publisher'),
    ...shown,
  });
  opened.defer(() => publisher.close());
  // A server that this run started ends with it.
  if (config.policy.baseUrl !== null)
    opened.defer(async () => (await publisher.withdraw({ keeps: config.policy.keepAdapter })).forEach((line) => warn(line)));
  // A server that this run starts, or the engine in this process, serves the directory that the backend loads.
  const ids = checkedPrompt === null ? null : await probePrompt(client, checkedPrompt, { backend, signal });
  if (ids !== null && config.policy.baseUrl !== null) await publisher.checkBase({ backend, ids, tolerance: publish.probeTolerance }, signal);
  const unmoved = { backend, client, versions, publisher, name, [Symbol.asyncDispose]: () => parts.disposeAsync() };
  const session = server.turns === null ? unmoved : takeTurns(unmoved, server.turns, signal);
  if (ids !== null)
    (await rehearsePublish({ session, ids, config, adaptersDirectory: directory.paths.adapters, signal })).forEach((line) => warn(line));
  const parts = opened.move();
  return session;
}
