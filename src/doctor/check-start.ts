/** Checks what a training would find out about its surroundings in its first minutes. Asks its servers, plays and writes nothing. */
import type { Environment } from '../core/environment.ts';
import { trainingRows } from '../core/training-rows.ts';
import { ConfigError } from '../core/errors.ts';
import { probePython } from '../launch/probe-python.ts';
import { countText, plural, usdText } from '../reports/text/number-text.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { trainingPrices } from '../sessions/policy/run-prices.ts';
import type { ResolvedRole } from '../sessions/roles/resolve-roles.ts';
import type { CheckedTraining } from '../sessions/training/check-training.ts';
import { assertWorkerStarts } from '../sessions/training/open-backend.ts';
import { longestRollout } from '../sessions/training/open-policy-servers.ts';
import { isUnserved } from '../sessions/training/open-supervised-training.ts';
import { checkDisk } from './check-machine.ts';
import { adapterFinding, checkModel } from './check-model.ts';
import { promptFindings } from '../sessions/training/prompt-findings.ts';
import { checkTinker } from './check-tinker.ts';
import { checkRoles } from './check-roles.ts';
import { checkServers, playedFindings } from './check-server.ts';
import type { DoctorTarget } from './doctor-target.ts';
import { type DiskEstimate, estimateDisk } from './estimate-disk.ts';
import { type Finding, ok, refusal, skipped } from '../sessions/finding.ts';
import { ASSUMED_TOKENS } from '../launch/gpu-plan.ts';

export type DiskOf = (config: TrainingConfig) => DiskEstimate;

export interface StartCheckOptions {
  readonly target: DoctorTarget & { readonly config: TrainingConfig };
  readonly environment: Environment;
  /** May be the same. */
  readonly evaluation: Environment;
  /** What the run would find out by itself. */
  readonly checked: CheckedTraining;
  /** Told the space that a run of this set-up takes, by its settings; null if its base is not here. */
  readonly onDisk?: (estimate: DiskOf | null) => void;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** Short, because the user waits for the result. */
const ANSWER_MS = 20_000;

export async function* checkStart(options: StartCheckOptions): AsyncGenerator<Finding, void> {
  const { target, environment, evaluation, checked, variables, onDisk, signal } = options;
  const { config } = target;
  const isPlayed = !isUnserved(config);
  const model = checkModel(config.model.path, variables);
  yield* model.findings;
  const adapter = adapterFinding(config, checked.adapter);
  if (adapter !== null) yield adapter;
  yield* await pythonFindings(options);
  if (config.backend.kind === 'tinker') yield await checkTinker(config, { variables, signal });
  yield* rowFindings(options);
  if (isPlayed) yield* await checkRoles({ ...evaluation.roles, ...environment.roles }, config.roles, { variables, signal });
  if (config.guards.maxCost !== null) yield await priceFinding(checked.roles, config.guards.maxCost);
  const contextTokens = longestRollout(environment, config.model.path);
  const { findings, probe } = await serverCheck(options, { contextTokens, modelWindow: model.window });
  yield* findings;
  if (probe !== null && evaluation !== environment) yield* playedFindings(probe, evaluation);
  if (isPlayed) yield* await promptFindings({ ...target, environment, evaluation, probe, signal });
  const { shape } = model;
  const diskOf = shape === null ? null : (of: TrainingConfig) => estimateDisk(of, shape, contextTokens ?? ASSUMED_TOKENS);
  onDisk?.(diskOf);
  yield await checkDisk(target.outputDir, diskOf?.(config) ?? null);
  const { wandb } = config.logging;
  if (wandb !== null)
    yield ok('wandb', `project ${wandb.project}: Weights & Biases takes these names; its server is not asked, because the run writes files`);
}

/** The Pythons of the worker and of a server that the run starts: whether they have their packages, which are not imported. */
async function pythonFindings({ target: { config }, variables, signal }: StartCheckOptions): Promise<Finding[]> {
  const { backend, policy } = config;
  const findings: Finding[] = [];
  if (backend.kind === 'torch')
    findings.push(
      await found('python', async () => {
        await assertWorkerStarts(config, { variables, signal });
        return `${backend.python} has what the gradient worker needs`;
      }),
    );
  if (policy.launch !== null) {
    const { python } = policy.launch;
    findings.push(
      await found('vllm', async () => `${python} has vLLM ${(await probePython(python, { env: variables, signal })).version ?? ''}`.trim()),
    );
  }
  return findings;
}

/** `missing` if the check throws ConfigError, whose last sentence says what to do. */
async function found(name: string, check: () => Promise<string>): Promise<Finding> {
  try {
    return ok(name, await check());
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return refusal(name, error.message);
  }
}

function priceFinding(roles: readonly ResolvedRole[], limit: number): Promise<Finding> {
  const players = Object.fromEntries(
    roles.flatMap(({ role, player }) => (player.kind === 'endpoint' && player.model !== null ? [[role, player.model]] : [])),
  );
  return found('price', async () => {
    await trainingPrices({ roles, players }, limit);
    return `known for every model, at most ${usdText(limit)}`;
  });
}

function* rowFindings({ target: { config }, environment, evaluation }: StartCheckOptions): Generator<Finding, void> {
  const train = trainingRows(environment);
  const rows = train === null || config.steps === 0 ? '' : `${plural(train.length, 'row')} to train on, `;
  const { length } = evaluation.eval;
  yield ok('rows', `${rows}${countText(length)} for evaluation, each with an id of its own`);
}

interface Windows {
  readonly contextTokens: number | null;
  /** Of the base model, from its config.json. */
  readonly modelWindow: number | null;
}

async function serverCheck({ target, environment, signal }: StartCheckOptions, { contextTokens, modelWindow }: Windows) {
  const { policy } = target.config;
  const not = (text: string) => ({ findings: [skipped('server', text)], probe: null });
  if (isUnserved(target.config)) return not('not needed: nothing is played');
  if (policy.embedded !== null) return not('not needed: the model plays in this process');
  if (policy.launch !== null) return not('not asked: the run starts its own vLLM; vf-doctor checks its flags');
  return checkServers(target.baseUrls, { target, contextTokens, played: environment, modelWindow, gpuShare: null, answerMs: ANSWER_MS, signal });
}
