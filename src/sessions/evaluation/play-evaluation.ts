/** Plays an opened evaluation into the folder of its run, new or resumed. */
import { gatewayOf } from '../agent-gateway.ts';
import { join, resolve } from 'node:path';
import type { EvaluationEvent, EvaluationOptions, RunIdentity } from '../../evaluate/evaluation-options.ts';
import { compareInputs, inputsOf } from './evaluation-inputs.ts';
import { recordEvaluation } from '../../evaluate/record-evaluation.ts';
import { findRun, newRunDirectory } from '../../evaluate/run-directory.ts';
import { displayPath } from '../../reports/text/own-command.ts';
import type { Summary } from '../../schemas/summary.ts';
import { EVALUATION_DEFAULTS, type EvaluationRequest } from './evaluation-request.ts';
import type { EvaluationContext, OpenedEvaluation } from './open-evaluation.ts';
import { recordedRun } from './recorded-run.ts';
import type { Surroundings } from '../surroundings.ts';

export interface PlayCallbacks {
  /** Called once, before the first rollout. `evaluation` has the number of rows that is played. */
  readonly onStarted?: (evaluation: OpenedEvaluation, directory: string) => void;
  readonly onEvent?: (event: EvaluationEvent) => void;
}

export interface PlayedEvaluation {
  readonly summary: Summary;
  /** The evaluation with the number of rows that was played, which a resumed run keeps. */
  readonly evaluation: OpenedEvaluation;
}

/** Throws like `recordEvaluation`. */
export async function playEvaluation(fresh: OpenedEvaluation, context: EvaluationContext, callbacks: PlayCallbacks): Promise<PlayedEvaluation> {
  const { request } = fresh;
  const { directory, resume } = await runDirectory(request, evaluationOptions(fresh, context), context);
  await fresh.opened.images.keepIn(join(directory, 'images'));
  const evaluation = resume ? resumed(fresh, directory) : fresh;
  const options = evaluationOptions(evaluation, context);
  const inputs = await inputsOf(evaluation, context);
  if (resume) await compareInputs(directory, inputs, { ...context, ...evaluation });
  await using gateway = await gatewayOf([evaluation.opened.environment]);
  const { summary } = await recordEvaluation({
    ...options,
    ...(gateway === null ? {} : { gateway }),
    run: { ...options.run, ...(Object.keys(inputs).length === 0 ? {} : { inputs }) },
    outputDir: directory,
    continuedWith: context.names.given({ resume: directory }),
    resume,
    onEvent: (event) => {
      if (event.type === 'started') callbacks.onStarted?.(evaluation, directory);
      callbacks.onEvent?.(event);
    },
  });
  return { summary, evaluation };
}

function evaluationOptions(evaluation: OpenedEvaluation, context: EvaluationContext): Omit<EvaluationOptions, 'outputDir'> {
  const { request, opened, policy, roles, cost, sampling, counts, secrets } = evaluation;
  const { names, signal } = context;
  return {
    environment: opened.environment,
    client: policy.client,
    ...(roles.models.stats.size === 0 ? {} : { models: roles.models }),
    ...(cost === null ? {} : { cost }),
    run: identityOf(evaluation, context),
    sampling: sampling.sampling,
    overridesSampling: request.overrideSampling ?? false,
    maxTokens: sampling.maxTokens,
    numExamples: counts.rows,
    rolloutsPerExample: counts.rolloutsPerRow,
    maxConcurrent: request.maxConcurrent ?? EVALUATION_DEFAULTS.maxConcurrent,
    seed: counts.seed,
    shuffle: request.shuffle ?? false,
    shuffleSeed: counts.shuffleSeed,
    timeoutMs: request.timeoutMs ?? null,
    ...(request.maxScoring === undefined ? {} : { maxScoring: request.maxScoring }),
    ...(request.scoringTimeoutMs === undefined ? {} : { scoringTimeoutMs: request.scoringTimeoutMs }),
    timeoutNames: { rollout: names.name('timeoutMs'), scoring: names.name('scoringTimeoutMs') },
    maxRetries: request.maxRetries ?? EVALUATION_DEFAULTS.maxRetries,
    independentScoring: request.independentScoring ?? false,
    stateColumns: request.stateColumns ?? [],
    resume: false,
    secrets,
    signal,
  };
}

function identityOf(
  { request, opened, environmentArgs, policy, roles, target }: OpenedEvaluation,
  { packageVersion }: Pick<EvaluationContext, 'packageVersion'>,
): RunIdentity {
  return {
    ...(request.name === undefined ? {} : { name: request.name }),
    envId: opened.environment.id,
    envArgs: environmentArgs,
    model: policy.model,
    baseUrl: policy.baseUrl,
    policyKind: target.kind === 'program' ? 'none' : policy.client.capabilities.kind,
    roles: roles.identities,
    packageVersion,
    ...opened.versions,
    ...(target.kind === 'endpoint' && target.alias !== null ? { endpointName: target.alias } : {}),
  };
}

/** A resumed run keeps its number of rows and its name unless the caller sets others. */
function resumed(fresh: OpenedEvaluation, directory: string): OpenedEvaluation {
  const { request, counts } = fresh;
  const recorded = recordedRun(directory);
  const rows = (request.rows === undefined ? recorded?.rows : undefined) ?? counts.rows;
  const name = request.name ?? recorded?.name ?? null;
  return { ...fresh, counts: { ...counts, rows }, request: { ...request, ...(name !== null && { name }) } };
}

/** The directory of a run: the one to resume, or a new one. */
async function runDirectory(
  { output, resume }: Pick<EvaluationRequest, 'output' | 'resume'>,
  options: Omit<EvaluationOptions, 'outputDir'>,
  { warn }: Pick<Surroundings, 'warn'>,
) {
  const { envId, model } = options.run;
  const base = resolve(output ?? 'outputs');
  if (typeof resume === 'string') return { directory: resolve(resume), resume: true };
  if (resume === true) {
    const { path, difference, damaged } = await findRun(base, options);
    if (path !== null) return { directory: path, resume: true };
    const why = damaged ?? (difference === null ? null : `in the newest incomplete one ${difference}`);
    const other = why === null ? '' : ` (${why})`;
    warn(`found no run of ${envId} with ${model} and the same settings under ${displayPath(base)}${other}; starting a new one`);
  }
  return { directory: newRunDirectory(base, envId, model), resume: false };
}
