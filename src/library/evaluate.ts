/** `evaluate` of the library: the work of `vf-eval` as a function with callbacks. Its body is loaded with the first call. */
import type { LanguageModel } from '../clients/language-model.ts';
import type { PolicyClient } from '../clients/policy-client.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import type { Model } from '../core/model.ts';
import type { EvaluationEvent } from '../evaluate/evaluation-options.ts';
import type { RecordedRollout } from '../evaluate/recorded-rollout.ts';
import type { Summary } from '../schemas/summary.ts';
import type { EvaluationRequest } from '../sessions/evaluation/evaluation-request.ts';
import type { PolicySpec } from '../sessions/policy/policy-spec.ts';

/** A model that plays a role, and its limits. Either `baseUrl` or `use`; without both the environment's own choice keeps playing. */
export interface RoleSpec {
  /** `builtin`: the model that is part of the environment. `policy`: the policy itself. Any other value: an alias of `endpoints.toml`. */
  readonly use?: string;
  /** An OpenAI-compatible server, up to and including `/v1`, or one URL for each replica. */
  readonly baseUrl?: string | readonly string[];
  /** The model at `baseUrl`. @default its only one */
  readonly model?: string;
  /** Environment variable that holds the key. @default that of the alias or provider, else no key is sent */
  readonly apiKeyVar?: string;
  /** Fields of every request, by OpenAI's names; null leaves a field out. @default those of the environment, greedy unless it says otherwise */
  readonly sampling?: Readonly<Record<string, unknown>>;
  /** The field of that name, such as `medium`. @default not sent */
  readonly reasoningEffort?: string;
  /** The greatest number of new tokens of a reply. @default what the environment asks for */
  readonly maxTokens?: number;
  /** The greatest number of calls at once, at least 1. @default 32 */
  readonly maxConcurrent?: number;
  /** Milliseconds of one request. @default 600000 */
  readonly timeoutMs?: number;
  /** Milliseconds of a call with all its retries. @default no limit */
  readonly totalTimeoutMs?: number;
  /** Retries after a transient failure. @default 3 */
  readonly maxRetries?: number;
  /** The greatest number of calls by this process. @default no limit */
  readonly budgetCalls?: number;
  /** The greatest number of tokens of prompts and replies. @default no limit */
  readonly budgetTokens?: number;
  /** `memory`, `off`, or the path of a file that keeps replies for all runs that name it. @default 'memory' */
  readonly cache?: string;
  /** Whether its server is asked for streams, as for the policy. @default 'auto' */
  readonly stream?: 'auto' | boolean;
}

/** The environment, the policy and the settings of `evaluate`. Only `environment` has no default. */
export interface EvaluateOptions<R extends Row = Row> extends Omit<EvaluationRequest, 'environment' | 'policy' | 'roles'> {
  /** An environment's name (`search-r1`) or path (`./city-notes`), or a loaded environment of text, which stays open. */
  readonly environment: string | Environment<R>;
  /** A spec, a model of the AI SDK such as `openai('gpt-5')`, or a client of your own, which stays open. @default the server of the environment variable VF_BASE_URL, else the environment's baseline */
  readonly policy?: PolicySpec | LanguageModel | PolicyClient;
  /** Models by role: a spec, a model of the AI SDK, a model of your own, or `builtin`, `policy`, an alias, `URL` or `MODEL@URL`. @default the environment's declaration */
  readonly roles?: Readonly<Record<string, RoleSpec | LanguageModel | Model | string>>;
  /** Aborting stops the run, which keeps the finished rollouts. @default never */
  readonly signal?: AbortSignal;
  /** Environment variables, for API keys and such; those of `./.env` are added. @default those of this process */
  readonly variables?: Readonly<Record<string, string | undefined>>;
  /** Progress: the start, each recorded rollout, notices. */
  readonly onEvent?: (event: EvaluationEvent) => void;
  /** A line for the user, for example the policy that plays, or an approximation. */
  readonly onNotice?: (line: string) => void;
}

/** A recorded run of `evaluate`. */
export interface Evaluated {
  readonly summary: Summary;
  /** One per rollout in the order of rows, those of earlier processes included. */
  readonly rollouts: readonly RecordedRollout[];
  /** Absolute path of the run's folder, which `vf-view`, `vf-compare`, `vf-score` and `vf-export` read. */
  readonly directory: string;
}

/**
 * Evaluates a policy on an environment, and records the run in a folder of its own. The numbers and files are those of `vf-eval` with the same settings.
 * A failed rollout has an error and no reward; it is never a reward of 0.
 *
 * Rejects with ConfigError if it cannot run as asked, PolicyError or ModelError for a server that does not answer, CancelledError if the signal aborts before
 * the run begins. An aborted run is a result with `summary.complete` false; `resume: directory` continues it.
 * @example
 * const { summary } = await evaluate({ environment: 'search-r1', policy: { baseUrl: 'http://localhost:8000/v1' }, rows: 50 });
 * console.log(summary.reward?.value, summary.rollouts.errored);
 */
export async function evaluate<R extends Row = Row>(options: EvaluateOptions<R>): Promise<Evaluated> {
  const { runEvaluateOptions } = await import('./run-evaluate-options.ts');
  return runEvaluateOptions(options);
}
