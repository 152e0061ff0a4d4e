/** Checks what a training would find out about its surroundings in its first minutes. Asks its servers, plays and writes nothing. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { VllmServer } from '../clients/vllm-server.ts';
import { VllmTokenizer } from '../clients/vllm-tokenizer.ts';
import type { PolicyProbe } from '../clients/vllm-probe.ts';
import type { Environment } from '../core/environment.ts';
import { Random } from '../core/random.ts';
import { trainingRows } from '../core/training-rows.ts';
import { modelFacts } from '../files/model-facts.ts';
import { readModelShape } from '../launch/model-shape.ts';
import { countText, plural } from '../reports/text/number-text.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { longestRollout } from '../sessions/training/open-policy-servers.ts';
import { isUnserved } from '../sessions/training/open-supervised-training.ts';
import { checkDisk } from './check-machine.ts';
import { checkPrompts } from './check-prompts.ts';
import { checkRoles } from './check-roles.ts';
import { checkServers } from './check-server.ts';
import type { DoctorTarget } from './doctor-target.ts';
import { estimateDisk } from './estimate-disk.ts';
import { type Finding, missing, ok, skipped } from './finding.ts';

export interface StartCheckOptions {
  readonly target: DoctorTarget & { readonly config: TrainingConfig };
  readonly environment: Environment;
  /** May be the same. */
  readonly evaluation: Environment;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** Short, because the user waits for the result. */
const ANSWER_MS = 20_000;
/** Assumed length of a rollout if the environment sets no limit. */
const ASSUMED_TOKENS = 4096;

export async function* checkStart(options: StartCheckOptions): AsyncGenerator<Finding, void> {
  const { target, environment, evaluation, variables, signal } = options;
  const { config } = target;
  yield* rowFindings(options);
  yield* await checkRoles({ ...evaluation.roles, ...environment.roles }, config.roles, { variables, signal });
  const contextTokens = longestRollout(environment, config.model.path);
  const modelWindow = modelFacts(config.model.path).contextLength;
  const { findings, probe } = await serverCheck(options, { contextTokens, modelWindow });
  yield* findings;
  if (!isUnserved(config)) yield* await promptFindings(options, probe, modelWindow);
  const shape = readModelShape(config.model.path);
  yield await checkDisk(target.outputDir, shape === null ? null : estimateDisk(config, shape, contextTokens ?? ASSUMED_TOKENS));
  const { wandb } = config.logging;
  if (wandb !== null)
    yield ok('wandb', `project ${wandb.project}: Weights & Biases takes these names; its server is not asked, because the run writes files`);
}

function* rowFindings({ target: { config }, environment, evaluation }: StartCheckOptions): Generator<Finding, void> {
  const train = trainingRows(environment);
  const rows = train === null || config.steps === 0 ? '' : `${plural(train.length, 'row')} to train on, `;
  const { length } = evaluation.eval;
  if (config.evaluation.every > 0 && !isUnserved(config) && length === 0) {
    yield missing('rows', `${evaluation.eval.name} has no rows to evaluate`, 'set other environment.eval_args, or evaluation.every = 0');
    return;
  }
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
  if (policy.launch !== null) return not('not asked: the run starts its own vLLM; vf-doctor checks its Python and flags');
  return checkServers(target.baseUrls, { target, contextTokens, played: environment, modelWindow, gpuShare: null, answerMs: ANSWER_MS, signal });
}

async function promptFindings(
  { target, environment, evaluation, signal }: StartCheckOptions,
  probe: PolicyProbe | null,
  modelWindow: number | null,
): Promise<readonly Finding[]> {
  const { config, baseUrls, apiKey } = target;
  const { maxTokens } = config.rollouts;
  const isLocal = existsSync(join(config.model.path, 'tokenizer.json'));
  if (!isLocal && probe?.kind !== 'tokens')
    return [skipped('prompts', 'not measured: the tokenizer is neither in the folder of the model nor at a server that answers')];
  const server = new VllmServer({
    baseUrl: baseUrls[0] ?? 'http://127.0.0.1',
    timeoutMs: ANSWER_MS,
    maxRetries: 0,
    random: Random.fromSeed(0),
    ...(apiKey === undefined ? {} : { apiKey }),
  });
  try {
    const { openLocalTokenizer } = await import('../tokenizer/local-tokenizer.ts');
    const tokenizer = isLocal ? await openLocalTokenizer(config.model.path) : new VllmTokenizer().at({ server, model: probe!.model, signal });
    const served = policyWindow(config, environment);
    const windowTokens = probe?.maxModelLen ?? served ?? modelWindow;
    const common = { render: tokenizer.render.bind(tokenizer), windowTokens, maxTokens, seed: config.seed, signal };
    const isSampled = config.steps > 0 && config.rolloutsFile === null && config.source === null;
    const train = isSampled ? trainingRows(environment) : null;
    const { every, examples } = config.evaluation;
    const held = examples === -1 ? evaluation.eval : evaluation.eval.take(examples);
    return [
      ...(train === null ? [] : [await checkPrompts({ ...common, environment, purpose: 'training', rows: train })]),
      ...(every === 0 || held.length === 0 ? [] : [await checkPrompts({ ...common, environment: evaluation, purpose: 'evaluation', rows: held })]),
    ];
  } finally {
    await server.close();
  }
}

/** The window of a server that the run starts; null if it is that of the model. */
function policyWindow({ policy, model }: TrainingConfig, environment: Environment): number | null {
  return policy.launch === null && policy.embedded === null ? null : longestRollout(environment, model.path);
}
