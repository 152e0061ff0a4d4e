/**
 * Plays an environment that plays its rows itself: an agent, which asks the policy, or models of its own. As for an episode, a failure becomes data on the record, and only
 * cancellation is thrown.
 */
import type { AgentGateway } from '../agents/agent-gateway.ts';
import { AgentRefusal } from '../agents/agent-refusal.ts';
import type { PolicyCapabilities, PolicyLease, Sampling } from '../clients/policy-client.ts';
import { eitherSignal, untilAborted } from '../core/abort.ts';
import type { Row } from '../core/dataset.ts';
import type { AgentResult, Environment } from '../core/environment.ts';
import { AgentError } from '../core/agent-error.ts';
import { EnvironmentError, PromptTooLongError, thrownText, VfError } from '../core/errors.ts';
import type { RolloutModels } from '../core/model.ts';
import type { Random } from '../core/random.ts';
import type { TextSegment } from '../core/rubric.ts';
import { stderrCause, stderrText } from '../core/program-stderr.ts';
import { readsThoughts } from '../core/reads-thoughts.ts';
import { isObject } from '../schemas/is-object.ts';
import { branchesOf } from './agent-branches.ts';
import { noPolicyFor, policyOfRollout } from './agent-policy.ts';
import { AgentSession } from './agent-session.ts';
import { type OpenFailure, OpenFailures } from './open-failures.ts';
import { samplerOf } from './sampler-of.ts';
import { Recorder } from './recorder.ts';
import type { Played } from './rollout.ts';
import { unplayedText } from './unplayed-text.ts';
import { watchedModels } from './watched-models.ts';

/** The policy that an agent asks. */
export interface AskedPolicy {
  /** Held until the rollout has ended. */
  readonly lease: PolicyLease;
  /** A further lease of its version. */
  readonly another: () => Promise<PolicyLease>;
  readonly capabilities: PolicyCapabilities;
  readonly sampling: Sampling;
  /** True: the run's settings hold whatever the agent asks for. */
  readonly overridesSampling: boolean;
  /** New tokens per generation; null means the environment's own limit. */
  readonly maxTokens: number | null;
  /** The rollout's own generator of the policy's seeds. */
  readonly random: Random;
  /** Null where no server can run. */
  readonly gateway: AgentGateway | null;
}

export interface PlayAgentOptions<R extends Row> {
  readonly environment: Environment<R>;
  readonly row: R;
  /** Null for an environment that asks models of its own. */
  readonly asked: AskedPolicy | null;
  readonly random: Random;
  /** The models of the environment's roles. @default none */
  readonly models?: RolloutModels;
  /** Aborted with a TimeoutError when the rollout's deadline passes, with anything else when the run is cancelled. */
  readonly signal: AbortSignal;
  /** Called before the agent asks, with what tells at any time what was played until then; its stop condition is `open` while the agent may go on. */
  readonly onOpen?: (soFar: () => Played) => void;
}

/** Throws CancelledError when the run is cancelled meanwhile. */
export function playAgent<R extends Row>(options: PlayAgentOptions<R>): Promise<Played> {
  return options.asked === null ? playAlone(options) : playAsking(options, options.asked);
}

async function playAlone<R extends Row>({ environment, row, random, models, signal }: PlayAgentOptions<R>): Promise<Played> {
  const record = new Recorder(row.prompt, environment.turnFormat, 'environment');
  record.programTurns = 0;
  const failures = new OpenFailures();
  try {
    const policy = noPolicyFor(environment.id);
    const playing = environment.play!(row, { random, models: watchedModels(models?.models ?? {}, failures), policy, signal });
    const { segments = [], state, stop = 'completed' } = checked(environment.id, await untilAborted(playing, signal));
    record.scored = segments;
    record.programTurns = segments.filter(({ kind }) => kind === 'model').length;
    record.state = state;
    record.stop = stop;
    failOf(failures.all, record, signal);
  } catch (error) {
    if (signal.aborted || !isAgents(error) || !failOf(failures.all, record, signal)) record.fail(error, signal);
  }
  return record.finish({ version: 0, model: programName(environment) }, models?.asked ?? []);
}

async function playAsking<R extends Row>(options: PlayAgentOptions<R>, asked: AskedPolicy): Promise<Played> {
  const { environment, row, random, models, signal, onOpen } = options;
  const record = new Recorder(row.prompt, environment.turnFormat, 'environment');
  const scale = asked.capabilities.lengthScale ?? 1;
  const session = new AgentSession({
    sampler: samplerOf(asked, { limits: environment.limits, readsThoughts: readsThoughts(environment.rubric, row) }),
    models: models?.models ?? {},
    sampling: asked.sampling,
    overridesSampling: asked.overridesSampling,
    completionTokens: (environment.limits.completionTokens ?? Infinity) * scale,
    turnTokens: asked.maxTokens ?? environment.limits.responseTokens * scale,
    maxTurns: environment.maxTurns ?? Infinity,
    signal,
  });
  const finished = (own: Recorder) => {
    own.branches = branchesOf(session);
    own.requests = session.requests.facts;
    own.policyMs = session.busy.ms;
    return own.finish(asked.lease.policy, models?.asked ?? []);
  };
  onOpen?.(() => finished(Object.assign(new Recorder(row.prompt, environment.turnFormat, 'environment'), { stop: session.spent ?? 'open' })));
  const failing = { session, record, environment, capabilities: asked.capabilities, policy: asked.lease.policy.model, signal };
  try {
    using either = eitherSignal(signal, session.requests.looped);
    using open = policyOfRollout(session, { name: asked.lease.policy.model, gateway: asked.gateway });
    const playing = environment.play!(row, { random, models: session.models, policy: open.policy, signal: either.signal });
    const { segments, state, stop = 'completed' } = checked(environment.id, await untilAborted(playing, either.signal));
    record.state = state;
    record.stop = session.spent ?? stop;
    if (segments !== undefined) record.scored = segments;
    if (!failOfPart(failing) && session.turns === 0) failed(neverAnswered(failing, state, open.hasAddress), failing);
  } catch (error) {
    failed(error, failing);
  }
  session.end(record.stop);
  return finished(record);
}

interface Failing {
  readonly session: AgentSession;
  readonly record: Recorder;
  readonly environment: Pick<Environment, 'failures'>;
  readonly capabilities: PolicyCapabilities;
  /** Its name. */
  readonly policy: string;
  readonly signal: AbortSignal;
}

/** What the agent threw may follow from what it was answered. */
function failed(error: unknown, failing: Failing): void {
  const { session, record, environment, signal } = failing;
  if (signal.aborted || !isAgents(error)) return record.fail(error, signal);
  if (failOfPart(failing)) return;
  // A budget is spent, as in an episode: what was played is scored.
  if (session.spent !== null && session.turns > 0) {
    record.stop = session.spent;
    return;
  }
  // Where nothing that it asked could be honoured, the policy or the settings are at fault.
  const isRefused = session.turns === 0 && session.requests.lastRefused !== null;
  if (isRefused)
    return record.fail(
      error instanceof AgentError && error.reason === 'refused' ? error : refusedError(session, failing.policy, { cause: error }),
      signal,
    );
  if (environment.failures !== 'score') return record.fail(error, signal);
  record.state = { failure: thrownText(error) };
  record.stop = 'agent_failed';
}

/** @param state of a program, which may have said why on its stderr */
function neverAnswered({ session, policy }: Failing, { stderr }: AgentResult['state'], hasAddress: boolean): AgentError {
  const said = typeof stderr === 'string' ? stderr : '';
  if (session.requests.lastRefused !== null || session.unanswered !== null) return refusedError(session, policy, stderrCause(said));
  const remedy = hasAddress
    ? 'A program must read the address from OPENAI_BASE_URL or ANTHROPIC_BASE_URL, the key from OPENAI_API_KEY or ANTHROPIC_API_KEY and the model from VF_MODEL, all in its environment; a client in your code takes policy.baseURL and policy.apiKey.'
    : 'Give it policy.languageModel(), or policy.baseURL and policy.apiKey.';
  return new AgentError(`The agent ended without asking the policy. ${remedy}${stderrText(said)}`, { reason: 'no_call', ...stderrCause(said) });
}

/** @param made what the agent made of it */
function refusedError(
  { requests: { lastRefused, lastModel }, unanswered }: AgentSession,
  policy: string,
  made: { readonly cause?: unknown },
): AgentError {
  const other =
    lastModel === null || lastModel === policy ? '' : ` It asked for ${lastModel}; the policy's name is policy.name, for a program VF_MODEL.`;
  const why =
    lastRefused === null
      ? unanswered === 'waiting'
        ? ': it ended while its request was waiting. Let it wait for the answer.'
        : ': it closed each connection before the answer was there. Give its client more time.'
      : `. Its last request was refused: ${lastRefused.message}${other}`;
  return new AgentError(`The agent got no answer from the policy${why}`, { reason: 'refused', ...made });
}

/** False for a failure of what the agent depends on: a program that cannot be started, a judge, a search, a setting. It is never a reward of 0. */
function isAgents(error: unknown): boolean {
  if (!(error instanceof VfError)) return true;
  return !error.endsRun && (error instanceof AgentError || error instanceof EnvironmentError || isOfRefusal(error));
}

/** What was refused is known to the session. */
function isOfRefusal(error: Error): boolean {
  let cause: unknown = error;
  for (let i = 0; i < 8 && cause instanceof Error; i++) {
    if (cause instanceof AgentRefusal) return true;
    cause = cause.cause;
  }
  return false;
}

/** Records the failure of the policy or a model behind a request that nobody got answered. An agent may live with a full context: it summarises, or gives up. */
function failOfPart({ session: { failures, turns }, record, capabilities, signal }: Failing): boolean {
  const isFull = ({ error, phase }: OpenFailure) => phase === 'generation' && error instanceof PromptTooLongError;
  const hasFailed = failOf(
    failures.all.filter((failure) => turns === 0 || !isFull(failure)),
    record,
    signal,
  );
  if (hasFailed && turns === 0) record.failUnplayed((refusal) => unplayedText({ refusal, transcript: null, policy: capabilities }));
  return hasFailed;
}

/** Of several the one after which no rollout can succeed. */
function failOf(failures: readonly OpenFailure[], record: Recorder, signal: AbortSignal): boolean {
  const failure = failures.find(({ error }) => error instanceof VfError && error.endsRun) ?? failures[0];
  if (failure === undefined) return false;
  record.enter(failure.phase);
  record.fail(failure.error, signal);
  return true;
}

/** The name of the models in results of an environment that asks its own. */
export function programName({ id, programModels }: Pick<Environment, 'id' | 'programModels'>): string {
  return programModels?.name ?? id;
}

const KINDS: readonly unknown[] = ['model', 'prefill', 'observation', 'corrective'] satisfies TextSegment['kind'][];

/** An environment in JavaScript may return anything. */
function checked(id: string, result: AgentResult): AgentResult {
  const { segments = [], state, stop = 'completed' } = (result ?? {}) as Partial<AgentResult>;
  const isRight =
    Array.isArray(segments) &&
    segments.every((segment) => KINDS.includes(segment?.kind) && typeof segment.text === 'string') &&
    isObject(state) &&
    typeof stop === 'string' &&
    stop !== '' &&
    stop !== 'has_error';
  if (!isRight)
    throw new EnvironmentError(
      `play of ${id} must give { segments: [{ kind, text }], state, stop } for a row: kind is one of ${KINDS.join(', ')}, and stop says why it ended. A failure is thrown.`,
    );
  return result;
}
