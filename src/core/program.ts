/** A program: an environment that plays itself with models of its own, because its prompts do not extend each other. Evaluated, never trained. */
import type { Dataset, Row } from './dataset.ts';
import type { Environment, EnvironmentLimits, Episode, EpisodeOptions, ProgramModels, ProgramResult } from './environment.ts';
import { ConfigError } from './errors.ts';
import type { RoleDeclarations } from './model.ts';
import { checkSpelling } from './option-spelling.ts';
import type { Rubric } from './rubric.ts';

export interface ProgramOptions<R extends Row> {
  readonly id: string;
  /** Rows to evaluate. */
  readonly eval: Dataset<R>;
  readonly rubric: Rubric<R>;
  /** The models that it calls by itself. @default not named */
  readonly models?: ProgramModels;
  /** Models that the user chooses for each role; `play` gets them as `models`, and their calls are recorded. @default none */
  readonly roles?: RoleDeclarations;
  /** Lines for the user before and after a run. @default none */
  readonly notices?: readonly string[];
  /** Facts for the results file, as JSON. @default none */
  readonly provenance?: Readonly<Record<string, unknown>>;
}

const OPTIONS = ['id', 'eval', 'rubric', 'models', 'roles', 'notices', 'provenance'] as const satisfies readonly (keyof ProgramOptions<Row>)[];

/**
 * @example
 * class Summarised extends ProgramEnv {
 *   async play({ prompt }: Row, { models, signal }: EpisodeOptions): Promise<ProgramResult> {
 *     const { text } = await models!['writer']!.generate(prompt, { maxTokens: 200, signal });
 *     return { segments: [{ kind: 'model', text }], state: {}, stop: 'completed' };
 *   }
 * }
 */
export abstract class ProgramEnv<R extends Row = Row> implements Environment<R> {
  readonly id: string;
  readonly eval: Dataset<R>;
  readonly rubric: Rubric<R>;
  readonly programModels?: ProgramModels;
  readonly roles: RoleDeclarations;
  readonly notices: readonly string[];
  readonly provenance: Readonly<Record<string, unknown>>;
  /** A program sets its limits itself, and its record reads as a chat. */
  readonly limits: EnvironmentLimits = { responseTokens: Infinity, observationTokens: Infinity, contextTokens: Infinity };
  readonly turnFormat = 'chat';

  constructor(options: ProgramOptions<R>) {
    checkSpelling(options.id, options, OPTIONS);
    this.id = options.id;
    this.eval = options.eval;
    this.rubric = options.rubric;
    if (options.models !== undefined) this.programModels = options.models;
    this.roles = options.roles ?? {};
    this.notices = options.notices ?? [];
    this.provenance = options.provenance ?? {};
  }

  /**
   * Plays one row. Throws if something fails that is not an answer: a server, a tool. Rows are played concurrently; after `signal` aborts, none of its results is
   * recorded.
   */
  abstract play(row: R, options: EpisodeOptions): Promise<ProgramResult>;

  get train(): never {
    throw new ConfigError(`${this.id} is a program, which is evaluated and not trained, so it has no rows to train on.`);
  }

  async start(): Promise<Episode> {
    throw new ConfigError(`${this.id} is a program, which no policy plays. Evaluate it with vf-eval.`);
  }

  async close(): Promise<void> {}
}
