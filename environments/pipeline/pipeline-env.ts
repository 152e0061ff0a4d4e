/** Plays each question of a pipeline by itself. The pipeline does everything: this class only turns questions into rows, and requests and replies into text. */
import { AgentEnv, type AgentPolicy, Dataset, metric, reward, type Row, Rubric } from 'vf-search';
import type { AgentResult, PlayOptions, ProgramModels } from 'vf-search/environment-kit';
import type { PipelineQuestion, QuestionPipeline } from 'vf-search/pipelines';

export interface PipelineRow extends Row {
  readonly question: PipelineQuestion;
}

export interface PipelineEnvOptions {
  /** Opened; the environment closes its pipeline. */
  readonly pipeline: QuestionPipeline;
  readonly questions: readonly PipelineQuestion[];
  /** For training. @default none */
  readonly trainQuestions?: readonly PipelineQuestion[];
  /** The metric that is the reward; the others have weight 0. */
  readonly metric: string;
  /** The file as the user named it. */
  readonly file: string;
  /** Lines for the user. @default none */
  readonly notices?: readonly string[];
}

export class PipelineEnv extends AgentEnv<PipelineRow> {
  readonly #pipeline: QuestionPipeline;

  constructor({ pipeline, questions, trainQuestions, metric: chosen, file, notices = [] }: PipelineEnvOptions) {
    const asksPolicy = pipeline.askingServers.length > 0;
    super({
      id: 'pipeline',
      eval: new Dataset(`the questions of ${file}`, questions.map(rowOf)),
      ...(trainQuestions && { train: new Dataset(`the training questions of ${file}`, trainQuestions.map(rowOf)) }),
      rubric: rubricOf(pipeline, chosen),
      ...(asksPolicy ? {} : { models: modelsOf(pipeline) }),
      notices: [...(asksPolicy ? askedByItself(pipeline) : []), ...notices],
      provenance: { ...pipeline.header(), file, metric: chosen },
    });
    this.#pipeline = pipeline;
  }

  override async play({ question }: PipelineRow, { policy, signal }: PlayOptions): Promise<AgentResult> {
    const { exchanges, metrics, variables, calls, neverStopped } = await this.#pipeline.play(question, signal, this.#policies(policy));
    const state = { ...variables, metrics, calls, never_stopped: neverStopped };
    // What the policy was asked and answered is on record.
    if (this.asksPolicy) return { state };
    const segments = exchanges.flatMap(({ prompt, answer }) => [
      { kind: 'observation' as const, text: prompt },
      { kind: 'model' as const, text: answer },
    ]);
    return { segments, state };
  }

  /** Of several servers, each asks in the role of its name. */
  #policies(policy: AgentPolicy): ReadonlyMap<string, AgentPolicy> {
    const { askingServers: servers } = this.#pipeline;
    return new Map(servers.map((server) => [server, servers.length === 1 ? policy : policy.as(server)]));
  }

  override close(): Promise<void> {
    return this.#pipeline[Symbol.asyncDispose]();
  }
}

/** UltraRAG calls questions `q_ls` and golden answers `gt_ls`; a key_map may have other names. */
function rowOf(question: PipelineQuestion, exampleId: number): PipelineRow {
  const { q_ls: text = Object.values(question)[0], gt_ls: golden } = question;
  return {
    exampleId,
    prompt: [{ role: 'user', content: typeof text === 'string' ? text : (JSON.stringify(text) ?? '') }],
    ...(golden === undefined ? {} : { info: { golden_answers: golden } }),
    question,
  };
}

function rubricOf({ metrics: names, hasStops }: QuestionPipeline, chosen: string): Rubric<PipelineRow> {
  const value =
    (name: string) =>
    ({ state: { metrics } }: { readonly state: Readonly<Record<string, unknown>> }) =>
      // A question whose policy had spent its turns or tokens has no answer, and reached no evaluation.
      metrics === undefined ? 0 : ((metrics as Readonly<Record<string, number>>)[name] ?? NaN);
  // The chosen metric comes first, because it is the reward.
  const others = names.filter((name) => name !== chosen).map((name) => metric(value(name), { name }));
  const neverStopped = metric<PipelineRow>(({ state }) => Number(state['never_stopped'] ?? true), { name: 'never_stopped' });
  return new Rubric({ funcs: [reward(value(chosen), { name: chosen, isHeadline: true }), ...others, ...(hasStops ? [neverStopped] : [])] });
}

function askedByItself({ models }: QuestionPipeline): readonly string[] {
  return [...models].map(([server, { name, url }]) => `${server} asks ${name} at ${url}, which is not the policy and is not trained.`);
}

function modelsOf({ models, pipeline }: QuestionPipeline): ProgramModels {
  const asked = [...models].map(([server, { name, url }]) => `${server} asks ${name} at ${url}`);
  const [server] = models.keys();
  const keys = pipeline.tools === '3.0' ? 'backend_configs.openai.' : '';
  return {
    name: [...new Set([...models.values()].map(({ name }) => name))].join('+') || 'no-model',
    description: asked.join('; ') || null,
    ...(server !== undefined && { choice: `-a '{"set": ["${server}.${keys}model_name=NAME", "${server}.${keys}base_url=URL"]}'` }),
    trainable: `-a '{${server === undefined ? '"file": "examples/search-loop.yaml"' : `"set": ["${server}.backend=policy"]`}, "train_path": "QUESTIONS.jsonl"}'`,
  };
}
