/**
 * A pipeline that is played question by question: `benchmark.get_data` gives the questions, each runs through all steps alone, and the last `evaluation.evaluate`
 * gives its metrics. Every question gets the same result as in a run over all of them.
 */
import type { AgentPolicy } from '../core/environment.ts';
import { QA_METRICS } from '../metrics/qa-metric-names.ts';
import { fieldsOf } from '../schemas/is-object.ts';
import { redactUrl } from '../transport/redact.ts';
import { NO_JOURNAL } from './call-journal.ts';
import type { OpenPipeline } from './open-pipeline.ts';
import { PipelineError, PipelineFileError } from './pipeline-error.ts';
import { toolSteps } from './pipeline.ts';
import type { PlannedCall } from './pipeline-plan.ts';
import type { ServedModel, Values } from './pipeline-server.ts';
import { endingStates, type FinishedCall } from './run-pipeline.ts';
import { parseServerSource } from './server-source.ts';
import { withoutEndOfTurn } from './servers/end-of-turn.ts';
import type { BuiltinServer } from './servers/builtin-servers.ts';

/** One question: a value for each name of the benchmark's key_map, such as `q_ls` and `gt_ls`. */
export type PipelineQuestion = Values;

/** A call that asked a model: a tool that takes `prompt_ls` and gives `ans_ls`. */
export interface Exchange {
  /** `server.tool`. */
  readonly step: string;
  readonly prompt: string;
  readonly answer: string;
}

export interface PlayedQuestion {
  /** In the order of the calls. */
  readonly exchanges: readonly Exchange[];
  /** By name, as `metrics` lists them; each in [0, 1]. */
  readonly metrics: Readonly<Record<string, number>>;
  /** The variables at the end: lists have one entry, which is the question's. */
  readonly variables: Values;
  readonly calls: number;
  /** True if the router of a loop never said stop. */
  readonly neverStopped: boolean;
}

export class QuestionPipeline implements AsyncDisposable {
  readonly pipeline: OpenPipeline;
  /** Names of the metrics that the last evaluation step computes. */
  readonly metrics: readonly string[];
  /** Lines about settings that can run but are probably not meant. */
  readonly warnings: readonly string[];
  readonly #benchmark: PlannedCall;
  readonly #evaluations: readonly PlannedCall[];

  private constructor(pipeline: OpenPipeline, benchmark: PlannedCall, evaluations: readonly PlannedCall[], warnings: readonly string[]) {
    this.pipeline = pipeline;
    this.warnings = warnings;
    this.#benchmark = benchmark;
    this.#evaluations = evaluations;
    const { metrics } = pipeline.parameters().get(evaluations.at(-1)!.server)!;
    const names = Array.isArray(metrics) && metrics.length > 0 ? metrics.map((name) => String(name).toLowerCase()) : QA_METRICS;
    this.metrics = [...new Set(names)];
  }

  /** Checks everything that can be checked before the first call. Rejects with PipelineFileError; the pipeline stays the caller's to close. */
  static async of(pipeline: OpenPipeline, signal: AbortSignal): Promise<QuestionPipeline> {
    const calls = toolSteps(pipeline.plan.steps);
    const of = (server: BuiltinServer, tool: string) =>
      calls.filter((call) => call.name === `${call.server}.${tool}` && isBuiltin(pipeline, call, server));
    const [benchmark, ...others] = of('benchmark', 'get_data');
    const evaluations = of('evaluation', 'evaluate');
    if (benchmark === undefined || others.length > 0) {
      const found = benchmark === undefined ? 'has no step benchmark.get_data' : `has ${others.length + 1} steps benchmark.get_data`;
      throw wrong(`${pipeline.path} ${found}, so its questions cannot be played one by one. Run it as a whole: vf-pipeline run`);
    }
    if (evaluations.length === 0)
      throw wrong(`${pipeline.path} has no step evaluation.evaluate, so its questions have no metrics. Add one, or run it: vf-pipeline run`);
    const warnings = await pipeline.check(signal, new Map(), unsaved(evaluations));
    return new QuestionPipeline(pipeline, benchmark, evaluations, warnings);
  }

  /** True if a loop of it can be ended by its router. */
  get hasStops(): boolean {
    return this.pipeline.plan.steps.some(
      (step) =>
        step.kind === 'loop' && step.times > 1 && step.steps.some((inner) => inner.kind === 'branch' && endingStates(inner.branches).length > 0),
    );
  }

  /** The facts that identify its runs: see the pipeline's `header`. */
  header(): ReturnType<OpenPipeline['header']> {
    return this.pipeline.header();
  }

  /** Closes the pipeline. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.pipeline[Symbol.asyncDispose]();
  }

  /** The models that are called and their servers, without credentials, by server of the pipeline; without the policy. */
  get models(): ReadonlyMap<string, ServedModel> {
    const models = [...this.pipeline.models()].flatMap(([name, model]) =>
      model === 'policy' ? [] : [[name, { name: model.name, url: redactUrl(model.url) }] as const],
    );
    return new Map(models);
  }

  /** The servers that ask the policy of the rollout. */
  get askingServers(): readonly string[] {
    return [...this.pipeline.models()].flatMap(([name, model]) => (model === 'policy' ? [name] : []));
  }

  /**
   * All questions, in the order in which the pipeline runs them.
   * @param path of another file with questions, all of which are taken. @default the benchmark's own, up to its limit
   */
  async questions(signal: AbortSignal, path?: string): Promise<readonly PipelineQuestion[]> {
    const { tool, server } = this.#benchmark;
    const own = this.pipeline.parameters().get(server)!;
    const parameters = path === undefined ? own : { ...own, benchmark: { ...fieldsOf(own['benchmark']), path, limit: -1 } };
    const ignore = () => {};
    const context = { parameters, resolve: this.pipeline.resolve, signal, recall: ignore, record: ignore, fail: ignore };
    const lists = Object.entries(await tool.run(parameters, context)) as [string, readonly unknown[]][];
    return lists[0]![1].map((_, i) => Object.fromEntries(lists.map(([name, list]) => [name, list[i]])));
  }

  /** Plays one question; many can be played at once. Rejects with PipelineError, or the error of a server, if it failed. `policies`: one for each of `askingServers`. */
  async play(question: PipelineQuestion, signal: AbortSignal, policies: ReadonlyMap<string, AgentPolicy> = new Map()): Promise<PlayedQuestion> {
    const exchanges: Exchange[] = [];
    let evaluated: Values | null = null;
    const onCall = ({ name, arguments: args, reply }: FinishedCall) => {
      exchanges.push(...exchangesOf(name, args, reply));
      if (this.#evaluations.some((each) => each.name === name)) evaluated = reply['eval_res'] as Values;
    };
    const given = new Map([[this.#benchmark.name, Object.fromEntries(Object.entries(question).map(([name, value]) => [name, [value]]))]]);
    const run = { journal: NO_JOURNAL, signal, given, policies, set: unsaved(this.#evaluations), isChecked: true, onCall };
    const { variables, calls, unstopped } = await this.pipeline.run(run);
    return { exchanges, metrics: this.#metricsOf(evaluated), variables, calls, neverStopped: unstopped.length > 0 };
  }

  #metricsOf(evaluated: Values | null): Readonly<Record<string, number>> {
    if (evaluated === null) throw new PipelineError('The question reached no step evaluation.evaluate, so it has no metrics', { failure: 'output' });
    const values = this.metrics.map((name) => [name, (evaluated[name] as readonly number[] | undefined)?.[0]] as const);
    return Object.fromEntries(values.filter((entry): entry is [string, number] => typeof entry[1] === 'number'));
  }
}

/** A file with the metrics of each single question is useless. */
function unsaved(evaluations: readonly PlannedCall[]): ReadonlyMap<string, Values> {
  return new Map(evaluations.map(({ server }) => [server, { save_path: null }]));
}

function exchangesOf(step: string, { prompt_ls: prompts }: Values, { ans_ls: answers }: Values): readonly Exchange[] {
  if (!Array.isArray(prompts) || !Array.isArray(answers) || prompts.length !== answers.length) return [];
  return prompts.flatMap((prompt: unknown, i) => {
    const answer: unknown = answers[i];
    return typeof prompt === 'string' && typeof answer === 'string' ? [{ step, prompt: withoutEndOfTurn(prompt), answer }] : [];
  });
}

function isBuiltin({ sources }: OpenPipeline, { server }: PlannedCall, wanted: BuiltinServer): boolean {
  const source = parseServerSource(server, sources[server] ?? null);
  return source.kind === 'builtin' && source.name === wanted;
}

function wrong(message: string): PipelineFileError {
  return new PipelineFileError(message, { fault: 'step' });
}
