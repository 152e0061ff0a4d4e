/** An environment whose rows a program plays: an agent of any form, which asks the policy as it would ask any other model. */
import type { Dataset, Row } from './dataset.ts';
import type { AgentResult, BranchContext, Environment, EnvironmentLimits, Episode, PlayOptions, ProgramModels } from './environment.ts';
import { ConfigError, EnvironmentError } from './errors.ts';
import type { RoleDeclarations } from './model.ts';
import { checkSpelling } from './option-spelling.ts';
import { playSettingsProblem } from './play-settings.ts';
import type { Rubric } from './rubric.ts';
import { assertDistinctNames, isToolSet } from './tool.ts';
import { noTrainingRows } from './training-rows.ts';
import { isObject } from '../schemas/is-object.ts';

/** What `run` receives. */
export interface AgentRun<R extends Row> extends PlayOptions {
  readonly row: R;
}

/** The state that rewards read, such as `{ answer }`; plain data. */
export type AgentState = Readonly<Record<string, unknown>>;

/** The options of an `AgentEnv`. */
export interface AgentOptions<R extends Row> {
  readonly id: string;
  /** Rows for evaluation. */
  readonly eval: Dataset<R>;
  /** Rows for training, which `eval` should not have. @default none: reading the environment's `train` throws */
  readonly train?: Dataset<R>;
  readonly rubric: Rubric<R>;
  /**
   * Runs the agent on a row and gives the state that rewards read. Throws if something fails that is not an answer: a server, a tool. Rows are played concurrently; after
   * `signal` aborts, nothing is recorded. @default a subclass has `play`
   */
  readonly run?: (run: AgentRun<R>) => Promise<AgentState>;
  /** False: it asks models of its own or those of its roles, and is evaluated but not trained. @default true, unless `models` names its own */
  readonly asksPolicy?: boolean;
  /** The models that it asks by itself, for results and messages. @default not named */
  readonly models?: ProgramModels;
  /** Models that the user chooses for each role, besides the policy; their calls are recorded. @default none */
  readonly roles?: RoleDeclarations;
  /** Most turns of the policy in a rollout, at least 1; further requests are refused, and the stop condition is `max_turns_reached`. @default no limit but the tokens' */
  readonly maxTurns?: number;
  /** Limits in tokens. @default none but the model's window */
  readonly limits?: Partial<EnvironmentLimits>;
  /** `score`: an agent that fails is scored with the state `{ failure }`, in which its message is. @default 'fail': its rollout has no reward */
  readonly failures?: 'fail' | 'score';
  /** The reward of one branch; null leaves it to the rollout's. @default the rollout's */
  readonly branchReward?: (context: BranchContext<R>) => number | null;
  /** What the agent uses in every rollout and the environment closes, such as the tools of `mcpTools`, whose names must differ. @default none */
  readonly resources?: readonly { close(): Promise<void> }[];
  /** Lines for the user before and after a run. @default none */
  readonly notices?: readonly string[];
  /** Facts for the results file, as JSON. @default none */
  readonly provenance?: Readonly<Record<string, unknown>>;
}

const OPTIONS = [
  'id',
  'eval',
  'train',
  'rubric',
  'run',
  'asksPolicy',
  'models',
  'roles',
  'maxTurns',
  'limits',
  'failures',
  'branchReward',
  'resources',
  'notices',
  'provenance',
] as const satisfies readonly (keyof AgentOptions<Row>)[];

/**
 * @example
 * export const loadEnvironment = () =>
 *   new AgentEnv({
 *     id: 'my-agent',
 *     train,
 *     eval: held,
 *     rubric,
 *     async run({ row, policy, signal }) {
 *       const agent = new ToolLoopAgent({ model: policy.languageModel(), tools });
 *       const { text } = await agent.generate({ prompt: row.question, abortSignal: signal });
 *       return { answer: text };
 *     },
 *   });
 */
export class AgentEnv<R extends Row = Row> implements Environment<R> {
  readonly id: string;
  readonly eval: Dataset<R>;
  readonly rubric: Rubric<R>;
  readonly asksPolicy: boolean;
  readonly programModels?: ProgramModels;
  readonly roles: RoleDeclarations;
  readonly maxTurns?: number;
  readonly failures: 'fail' | 'score';
  readonly branchReward?: (context: BranchContext<R>) => number | null;
  readonly notices: readonly string[];
  readonly provenance: Readonly<Record<string, unknown>>;
  readonly limits: EnvironmentLimits;
  readonly turnFormat = 'chat';
  readonly #train: Dataset<R> | undefined;
  readonly #run: AgentOptions<R>['run'];
  readonly #resources: readonly { close(): Promise<void> }[];

  constructor(options: AgentOptions<R>) {
    const { id, maxTurns, failures = 'fail', branchReward } = options;
    checkSpelling(id, options, OPTIONS);
    this.id = id;
    this.eval = options.eval;
    this.rubric = options.rubric;
    this.#train = options.train;
    this.#run = options.run;
    this.#resources = [...new Set(options.resources)];
    const sets = this.#resources.filter(isToolSet);
    assertDistinctNames(
      sets.flatMap((set) => set.tools),
      sets,
    );
    this.asksPolicy = options.asksPolicy ?? options.models === undefined;
    if (options.models !== undefined) this.programModels = options.models;
    this.roles = options.roles ?? {};
    if (maxTurns !== undefined && !(Number.isSafeInteger(maxTurns) && maxTurns >= 1))
      throw new ConfigError(`maxTurns of ${id} must be an integer of at least 1, got ${String(maxTurns)}`);
    if (maxTurns !== undefined) this.maxTurns = maxTurns;
    if (failures !== 'fail' && failures !== 'score')
      throw new ConfigError(`failures of ${id} must be "fail" or "score", got ${JSON.stringify(failures)}`);
    this.failures = failures;
    if (branchReward !== undefined) this.branchReward = branchReward;
    this.notices = options.notices ?? [];
    this.provenance = options.provenance ?? {};
    this.limits = { responseTokens: Infinity, observationTokens: Infinity, contextTokens: Infinity, ...options.limits };
    const problem = playSettingsProblem({ limits: this.limits });
    if (problem !== null) throw new ConfigError(`The environment ${id}: ${problem}`);
  }

  async play(row: R, options: PlayOptions): Promise<AgentResult> {
    if (this.#run === undefined) throw new ConfigError(`The environment ${this.id} has no agent. Pass run to its constructor, or override play.`);
    const state: unknown = await this.#run({ row, ...options });
    if (!isObject(state))
      throw new EnvironmentError(`The agent of ${this.id} must return an object, the state that rewards read, such as { answer: text }.`, {
        isOfCode: true,
      });
    return { state };
  }

  get train(): Dataset<R> {
    if (this.#train === undefined) throw noTrainingRows(this.id);
    return this.#train;
  }

  async start(): Promise<Episode> {
    throw new ConfigError(`${this.id} is an agent, which plays its rows itself and has no episodes.`);
  }

  async close(): Promise<void> {
    await Promise.all(this.#resources.map((resource) => resource.close()));
  }
}

/** The agent that plays a row of the environment, and the row as the agent has it; null if the environment's own episodes play it. */
export function agentOf<R extends Row, E extends Pick<Environment<R>, 'play' | 'memberOf'>>(
  environment: E,
  row: R,
): { readonly environment: E | Environment<R>; readonly row: R } | null {
  const player = environment.memberOf?.(row) ?? { environment, row };
  return player.environment.play === undefined ? null : player;
}

/** True for an environment that plays its rows itself and asks models of its own: it needs no policy. */
export function needsNoPolicy({ play, asksPolicy = false }: Pick<Environment, 'play' | 'asksPolicy'>): boolean {
  return play !== undefined && !asksPolicy;
}
