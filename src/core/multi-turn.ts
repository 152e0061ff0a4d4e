/**
 * The class that environment authors extend. A subclass says how an episode starts (`setupState`), what of a generation counts (`keep`),
 * and what the environment answers (`envResponse`); playing, tokens and scoring are done elsewhere.
 */
import type { Dataset, Row } from './dataset.ts';
import type {
  Environment,
  EnvironmentLimits,
  Episode,
  EpisodeOptions,
  Observation,
  PolicyNeed,
  StepContext,
  StepResult,
  StopCondition,
  TokenConventions,
  TurnFormat,
  TurnOptions,
} from './environment.ts';
import { ConfigError } from './errors.ts';
import type { Message } from './message.ts';
import type { RoleDeclarations } from './model.ts';
import type { Rubric } from './rubric.ts';
import type { ToolSpec } from './tool-calls.ts';

export interface MultiTurnOptions<R extends Row> {
  readonly id: string;
  /** Rows that `vf-eval` plays. */
  readonly eval: Dataset<R>;
  /** Rows that a trainer draws from. @default the eval rows */
  readonly train?: Dataset<R>;
  readonly rubric: Rubric<R>;
  /** Generations per episode, at least 1; the stop is `max_turns_reached`. @default 10 (verifiers v0, ToolEnv) */
  readonly maxTurns?: number;
  /** @default no limit but the model's window */
  readonly limits?: Partial<EnvironmentLimits>;
  /** @default 'chat' */
  readonly turnFormat?: TurnFormat;
  /** Strings that end a generation. @default none */
  readonly stop?: readonly string[];
  /** Opens every turn of the assistant, mask 0, such as `<think>\n`. @default none */
  readonly prefill?: string;
  /** What the policy must be able to do beside what the other options ask of it: `prefill` where `envResponse` prefills a turn, `images`. @default none */
  readonly needs?: readonly PolicyNeed[];
  /** @default end of turn kept, BOS where the model asks for it */
  readonly tokens?: TokenConventions;
  /** Models that it plays or scores with, beside the policy. @default none */
  readonly roles?: RoleDeclarations;
  readonly notices?: readonly string[];
  readonly provenance?: Readonly<Record<string, unknown>>;
}

/** What `envResponse` may say; `done` ends the episode after the observation is appended. */
export interface EnvResponse {
  /** Raw text inside the assistant's turn in continuation format, a user message in chat format. */
  readonly observation?: string;
  /** In place of `observation`, chat format only: answers of tools, images, several messages. */
  readonly messages?: readonly Message[];
  /** @default 'observation' */
  readonly kind?: Observation['kind'];
  /** How the next generation differs from the others. */
  readonly next?: TurnOptions;
  /** Ends the episode: true means `completed`, a string is its own stop condition. */
  readonly done?: boolean | StopCondition;
}

/** What a state always holds; subclasses add their own fields. */
export interface EpisodeState extends Record<string, unknown> {
  /** Generations played so far. */
  turns: number;
}

export abstract class MultiTurnEnv<R extends Row = Row, S extends EpisodeState = EpisodeState> implements Environment<R> {
  readonly id: string;
  readonly train: Dataset<R>;
  readonly eval: Dataset<R>;
  readonly rubric: Rubric<R>;
  readonly limits: EnvironmentLimits;
  readonly maxTurns: number;
  readonly turnFormat: TurnFormat;
  readonly stop: readonly string[];
  readonly prefill: string | undefined;
  readonly tokens: TokenConventions;
  readonly roles: RoleDeclarations;
  readonly notices: readonly string[];
  readonly provenance: Readonly<Record<string, unknown>>;
  readonly #needs: readonly PolicyNeed[];

  constructor(options: MultiTurnOptions<R>) {
    this.id = options.id;
    this.eval = options.eval;
    this.train = options.train ?? options.eval;
    this.rubric = options.rubric;
    this.maxTurns = options.maxTurns ?? 10;
    if (!Number.isInteger(this.maxTurns) || this.maxTurns < 1)
      throw new ConfigError(`maxTurns must be an integer of at least 1, got ${this.maxTurns}`);
    this.limits = { responseTokens: Infinity, observationTokens: Infinity, contextTokens: Infinity, ...options.limits };
    this.turnFormat = options.turnFormat ?? 'chat';
    this.stop = options.stop ?? [];
    this.prefill = options.prefill;
    this.tokens = options.tokens ?? {};
    this.#needs = options.needs ?? [];
    this.roles = options.roles ?? {};
    this.notices = options.notices ?? [];
    this.provenance = options.provenance ?? {};
  }

  /** The state an episode starts with, `turns: 0` included. */
  protected abstract setupState(row: R, options: EpisodeOptions): S | Promise<S>;

  /**
   * Answers one kept generation; `context` says how it ended. May change the state. A bad move of the model is an observation, not an
   * exception.
   */
  protected abstract envResponse(kept: string, state: S, context: StepContext): EnvResponse | Promise<EnvResponse>;

  /** How many characters of a generation count; the rest is dropped before anything else sees it. Keeps all by default. */
  protected keep(sampled: string, _state: S): number {
    return sampled.length;
  }

  /** What the policy is asked. The row's own prompt by default. */
  protected prompt(row: R): readonly Message[] {
    return row.prompt;
  }

  /** Tools that the policy is offered natively. None by default. */
  protected offeredTools(_row: R): readonly ToolSpec[] {
    return [];
  }

  /** Frees what an episode's state holds; called once, also after a failure. */
  protected async cleanup(_state: S): Promise<void> {}

  /** What the policy must be able to do. */
  get needs(): readonly PolicyNeed[] {
    return [...new Set<PolicyNeed>([...this.#needs, ...(this.prefill === undefined ? [] : (['prefill'] as const))])];
  }

  async close(): Promise<void> {}

  async start(row: R, options: EpisodeOptions): Promise<Episode> {
    const state = await this.setupState(row, options);
    try {
      const tools = this.offeredTools(row);
      return {
        prompt: this.prompt(row),
        ...(tools.length === 0 ? {} : { tools }),
        stop: this.stop,
        ...(this.prefill === undefined ? {} : { prefill: this.prefill }),
        state,
        keep: (sampled) => this.keep(sampled, state),
        step: (kept, context) => this.#step(kept, state, context),
        [Symbol.asyncDispose]: () => this.cleanup(state),
      };
    } catch (error) {
      // What failed first is what counts; the clean-up may well fail of it.
      await this.cleanup(state).catch(() => {});
      throw error;
    }
  }

  async #step(kept: string, state: S, context: StepContext): Promise<StepResult> {
    state.turns += 1;
    const { observation, messages, kind = 'observation', done, next } = await this.envResponse(kept, state, context);
    const stop = done === undefined || done === false ? null : done === true ? 'completed' : done;
    return {
      observation: messages !== undefined ? { messages, kind } : observation === undefined ? null : { text: observation, kind },
      stop: stop ?? (state.turns >= this.maxTurns ? 'max_turns_reached' : null),
      ...(next === undefined ? {} : { next }),
    };
  }
}
