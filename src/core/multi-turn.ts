/**
 * The class that environment authors extend. A subclass defines how an episode starts (`setupState`), how much of a generation is kept (`keep`), and how
 * the environment responds (`envResponse`). The package does the rest: sampling, tokens, scoring.
 */
import { untilAborted } from './abort.ts';
import type { Dataset, Row } from './dataset.ts';
import type {
  Baseline,
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
import { ConfigError, EnvironmentError } from './errors.ts';
import type { ImageStore, Message } from './message.ts';
import type { RoleDeclarations } from './model.ts';
import { returnedText } from './returned-text.ts';
import { checkSpelling, unknownKeyProblem } from './option-spelling.ts';
import { LIMITS, playSettingsProblem } from './play-settings.ts';
import type { Rubric } from './rubric.ts';
import { CLEAN_UP_MS } from './timers.ts';
import type { ToolSpec } from './tool-calls.ts';
import { isObject } from '../schemas/is-object.ts';
import { noTrainingRows } from './training-rows.ts';

export interface MultiTurnOptions<R extends Row> {
  readonly id: string;
  /** Rows for evaluation. */
  readonly eval: Dataset<R>;
  /** Rows for training, which `eval` should not have. @default none: reading the environment's `train` throws */
  readonly train?: Dataset<R>;
  readonly rubric: Rubric<R>;
  /** Maximum number of generations per episode, at least 1; then it stops with `max_turns_reached`. @default 10 (verifiers v0, ToolEnv) */
  readonly maxTurns?: number;
  /** Limits in tokens. @default none but the model's window */
  readonly limits?: Partial<EnvironmentLimits>;
  /** @default 'chat' */
  readonly turnFormat?: TurnFormat;
  /** Strings that end a generation; they stay in the text. @default none */
  readonly stop?: readonly string[];
  /** Text that opens every assistant turn, mask 0, such as `<think>\n`. @default none */
  readonly prefill?: string;
  /** Provides the bytes of the images that messages show; the policy must then support images. @default none */
  readonly images?: ImageStore;
  /** Features that the policy must support beyond those that the other options imply: `prefill` if `envResponse` prefills a turn. @default none */
  readonly needs?: readonly PolicyNeed[];
  /** @default the end-of-turn token is kept; BOS if the model's tokenizer adds it */
  readonly tokens?: TokenConventions;
  /** Models other than the policy that episodes or rewards call. @default none */
  readonly roles?: RoleDeclarations;
  /** Runs keep a `trace.jsonl`, which `context.trace` adds to. @default false */
  readonly traces?: boolean;
  /** Lines for the user before and after a run. @default none */
  readonly notices?: readonly string[];
  /** Facts for the results file, as JSON. @default none */
  readonly provenance?: Readonly<Record<string, unknown>>;
  /** The baseline that plays without a model, such as `toolCallingBaseline`. @default the extractive baseline, which searches for the question */
  readonly baseline?: Baseline;
}

const OPTIONS = [
  'id',
  'eval',
  'train',
  'rubric',
  'maxTurns',
  'limits',
  'turnFormat',
  'stop',
  'prefill',
  'images',
  'needs',
  'tokens',
  'roles',
  'traces',
  'notices',
  'provenance',
  'baseline',
] as const satisfies readonly (keyof MultiTurnOptions<Row>)[];

/** The environment's response to a generation. An empty object adds nothing and continues. */
export interface EnvResponse {
  /** Raw text inside the assistant's turn in continuation format, a user message in chat format. */
  readonly observation?: string;
  /** Instead of `observation`, in chat format only: tool answers, images, several messages. */
  readonly messages?: readonly Message[];
  /** @default 'observation' */
  readonly kind?: Observation['kind'];
  /** Settings for the next generation only. */
  readonly next?: TurnOptions;
  /** What the generation was worth by itself, finite. It is not part of the rollout's reward, which is the rubric's. @default none */
  readonly reward?: number;
  /** Ends the episode after the observation: true with `completed`, a string with that stop condition. @default false */
  readonly done?: boolean | StopCondition;
}

const RESPONSE_KEYS = ['observation', 'messages', 'kind', 'next', 'reward', 'done'] as const satisfies readonly (keyof EnvResponse)[];

/** The state of an episode. Subclasses add their own fields. */
export interface EpisodeState extends Record<string, unknown> {
  /** Generations played so far. */
  turns: number;
}

/**
 * An environment of several turns. The constructor throws ConfigError for a misspelled option, or unless `maxTurns` is an integer of at least 1, the stop strings are not empty and the limits are numbers.
 * @example
 * class Guess extends MultiTurnEnv {
 *   protected setupState() {
 *     return { turns: 0 };
 *   }
 *   protected envResponse(kept: string) {
 *     return kept.includes('7') ? { done: true } : { observation: 'Guess again.' };
 *   }
 * }
 */
export abstract class MultiTurnEnv<R extends Row = Row, S extends EpisodeState = EpisodeState> implements Environment<R> {
  readonly id: string;
  readonly eval: Dataset<R>;
  readonly rubric: Rubric<R>;
  readonly limits: EnvironmentLimits;
  readonly maxTurns: number;
  readonly turnFormat: TurnFormat;
  readonly stop: readonly string[];
  readonly prefill: string | undefined;
  readonly tokens: TokenConventions;
  readonly images?: ImageStore;
  readonly roles: RoleDeclarations;
  readonly traces: boolean;
  readonly notices: readonly string[];
  readonly provenance: Readonly<Record<string, unknown>>;
  readonly baseline?: Baseline;
  readonly #train: Dataset<R> | undefined;
  readonly #needs: readonly PolicyNeed[];

  constructor(options: MultiTurnOptions<R>) {
    checkSpelling(options.id, options, OPTIONS);
    checkSpelling(options.id, options.limits ?? {}, LIMITS);
    this.id = options.id;
    this.eval = options.eval;
    this.#train = options.train;
    this.rubric = options.rubric;
    this.maxTurns = options.maxTurns ?? 10;
    if (!Number.isInteger(this.maxTurns) || this.maxTurns < 1)
      throw new ConfigError(`maxTurns must be an integer of at least 1, got ${this.maxTurns}`);
    this.limits = { responseTokens: Infinity, observationTokens: Infinity, contextTokens: Infinity, ...options.limits };
    this.turnFormat = options.turnFormat ?? 'chat';
    this.stop = options.stop ?? [];
    const problem = playSettingsProblem(this);
    if (problem !== null) throw new ConfigError(`The environment ${this.id} cannot be played: ${problem}.`);
    this.prefill = options.prefill;
    this.tokens = options.tokens ?? {};
    this.#needs = options.needs ?? [];
    if (options.images !== undefined) this.images = options.images;
    if (options.baseline !== undefined) this.baseline = options.baseline;
    this.roles = options.roles ?? {};
    this.traces = options.traces ?? false;
    this.notices = options.notices ?? [];
    this.provenance = options.provenance ?? {};
  }

  /** The state of a new episode, including `turns: 0`. */
  protected abstract setupState(row: R, options: EpisodeOptions): S | Promise<S>;

  /**
   * Responds to the kept part of a generation; `context` says how it ended. May change the state; `turns` already counts this generation. An invalid
   * action of the policy is an observation, not an exception.
   */
  protected abstract envResponse(kept: string, state: S, context: StepContext): EnvResponse | Promise<EnvResponse>;

  /** Returns how many characters (UTF-16 units) of a generation are kept; the rest is dropped first. Keeps all by default. */
  protected keep(sampled: string, _state: S): number {
    return sampled.length;
  }

  /** The prompt of an episode; the row's own by default. */
  protected prompt(row: R): readonly Message[] {
    return row.prompt;
  }

  /** Tools that are offered natively; none by default. */
  protected offeredTools(_row: R): readonly ToolSpec[] {
    return [];
  }

  /** Frees the resources of an episode's state. Called once, even after a failure. */
  protected async cleanup(_state: S): Promise<void> {}

  get train(): Dataset<R> {
    if (this.#train === undefined) throw noTrainingRows(this.id);
    return this.#train;
  }

  /** Features that the policy must support. */
  get needs(): readonly PolicyNeed[] {
    const implied: readonly PolicyNeed[] = [
      ...(this.prefill === undefined ? [] : ['prefill' as const]),
      ...(this.images === undefined ? [] : ['images' as const]),
    ];
    return [...new Set([...this.#needs, ...implied])];
  }

  async close(): Promise<void> {}

  async start(row: R, options: EpisodeOptions): Promise<Episode> {
    const state = await this.setupState(row, options);
    this.#assert(isObject(state), { hook: 'setupState', returned: state, remedy: 'Return the state of the episode, such as { turns: 0 }' });
    try {
      const tools = this.offeredTools(row);
      this.#assert(Array.isArray(tools), { hook: 'offeredTools', returned: tools, remedy: 'Return a list of tools, [] for none' });
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
      // Report the first failure; it may make the clean-up fail too, or hang.
      const patience = AbortSignal.any([options.signal, AbortSignal.timeout(CLEAN_UP_MS)]);
      await untilAborted(this.cleanup(state), patience).catch(() => {});
      throw error;
    }
  }

  #assert(isRight: boolean, { hook, returned, remedy }: { readonly hook: string; readonly returned: unknown; readonly remedy: string }): void {
    if (!isRight)
      throw new EnvironmentError(`${hook} of the environment ${this.id} returned ${returnedText(returned)}. ${remedy}`, { isOfCode: true });
  }

  async #step(kept: string, state: S, context: StepContext): Promise<StepResult> {
    state.turns += 1;
    const response = await this.envResponse(kept, state, context);
    this.#assert(isObject(response), { hook: 'envResponse', returned: response, remedy: 'Return an object, {} to add nothing and continue' });
    const unknown = unknownKeyProblem(response, RESPONSE_KEYS);
    if (unknown !== null) throw new EnvironmentError(`envResponse of the environment ${this.id} returned ${unknown}`, { isOfCode: true });
    const { observation, messages, kind = 'observation', done, next, reward } = response;
    const stop = done === undefined || done === false ? null : done === true ? 'completed' : done;
    return {
      observation: messages !== undefined ? { messages, kind } : observation === undefined ? null : { text: observation, kind },
      stop: stop ?? (state.turns >= this.maxTurns ? 'max_turns_reached' : null),
      ...(next === undefined ? {} : { next }),
      ...(reward === undefined ? {} : { reward }),
    };
  }
}
