/**
 * Several environments as one: their rows form one data set, and each row is played by the environment it came from, with that environment's rubric,
 * limits, format and models. (verifiers: EnvGroup)
 */
import { needsNoPolicy } from './agent-env.ts';
import { Dataset, type Row } from './dataset.ts';
import type {
  BranchContext,
  Environment,
  EnvironmentLimits,
  Episode,
  EpisodeConventions,
  EpisodeOptions,
  PolicyNeed,
  TurnFormat,
} from './environment.ts';
import { ConfigError, type VfError } from './errors.ts';
import type { ImageStore } from './message.ts';
import type { RoleDeclarations } from './model.ts';
import { Parser } from './parser.ts';
import { RubricGroup } from './rubric-group.ts';
import { readsThoughts } from './reads-thoughts.ts';
import { type MetricDisplay, type RewardContext, Rubric, type Score, type ScoringRunner } from './rubric.ts';

export interface EnvGroupOptions {
  readonly id: string;
  /**
   * Environments by task, at least one. The task is the environment's name in metrics and results. Rows take turns in this order, so that the first
   * N rows hold every task; an environment without further rows is skipped.
   */
  readonly environments: Readonly<Record<string, Environment>>;
  readonly notices?: readonly string[];
}

interface Member {
  readonly task: string;
  readonly environment: Environment;
  readonly row: Row;
}

/**
 * @example
 * new EnvGroup({ id: 'mixed', environments: { search: await loadEnvironment('search-r1'), sums: new SumsEnv() } })
 */
export class EnvGroup implements Environment {
  readonly id: string;
  readonly eval: Dataset;
  readonly rubric: Rubric;
  readonly environments: Readonly<Record<string, Environment>>;
  /** The maximum of each limit over the environments; an episode has the limits of its own environment. */
  readonly limits: EnvironmentLimits;
  /** The arguments of all environments, each with its task: `max_obs_length (search)`. */
  readonly limitArguments: NonNullable<Environment['limitArguments']>;
  readonly turnFormat: TurnFormat;
  readonly turnFormats: readonly TurnFormat[];
  readonly needs: readonly PolicyNeed[];
  /** Set if every environment that shows images can do without them. */
  readonly withoutImages?: string;
  readonly images?: ImageStore;
  readonly roles: RoleDeclarations;
  readonly traces: boolean;
  readonly notices: readonly string[];
  readonly provenance: Readonly<Record<string, unknown>>;
  /** The environment and row that each row of the group came from. */
  readonly #members = new WeakMap<Row, Member>();
  #train: Dataset | null = null;
  /** True if one of the environments is an agent. */
  readonly asksPolicy: boolean;
  /** Set if one of the environments has the hook. */
  readonly finish?: NonNullable<Environment['finish']>;
  /** Set if one of the environments has the hook. */
  readonly branchReward?: NonNullable<Environment['branchReward']>;

  constructor({ id, environments, notices = [] }: EnvGroupOptions) {
    const isByTask = typeof environments === 'object' && environments !== null && !Array.isArray(environments);
    const entries = isByTask ? Object.entries(environments) : [];
    if (entries.length === 0) {
      throw new ConfigError(
        `The environment group ${id} has no environments. Pass { id, environments: { task: environment, ... } } with at least one task.`,
      );
    }
    const foreign = entries.find(([, { rubric }]) => typeof rubric.settleGroup !== 'function');
    if (foreign !== undefined)
      throw new ConfigError(`The rubric of ${foreign[0]} does not extend Rubric, as it must in the environment group ${id}. Let it extend Rubric.`);
    const program = entries.find(([, environment]) => needsNoPolicy(environment));
    if (program !== undefined)
      throw new ConfigError(
        `The environment group ${id} has ${program[0]}, which asks models of its own and not the policy of the group. Evaluate it alone.`,
      );
    this.id = id;
    this.environments = environments;
    const all = entries.map(([, environment]) => environment);
    this.eval = this.#rows('eval');
    const most = (key: keyof EnvironmentLimits) => Math.max(...all.map(({ limits }) => limits[key] ?? Infinity));
    this.limits = {
      responseTokens: most('responseTokens'),
      observationTokens: most('observationTokens'),
      contextTokens: most('contextTokens'),
      completionTokens: most('completionTokens'),
    };
    this.limitArguments = mergedLimitArguments(entries);
    this.turnFormats = [...new Set(all.flatMap(({ turnFormat, turnFormats = [turnFormat] }) => turnFormats))];
    // By token ids, a policy that supports conversations also supports continuation.
    this.turnFormat = this.turnFormats.includes('chat') ? 'chat' : 'continuation';
    this.needs = [...new Set(all.flatMap(({ needs = [] }) => needs))];
    const withoutImages = mergedWithoutImages(entries);
    if (withoutImages !== null) this.withoutImages = withoutImages;
    const images = mergedImages(all);
    if (images !== null) this.images = images;
    this.roles = mergedRoles(entries);
    this.traces = all.some(({ traces }) => traces === true);
    this.notices = [...notices, ...entries.flatMap(([task, environment]) => (environment.notices ?? []).map((notice) => `${task}: ${notice}`))];
    this.provenance = Object.fromEntries(entries.map(([task, environment]) => [task, environment.provenance ?? {}]));
    this.rubric = new RoutedRubric(environments, (row) => this.memberOf(row));
    this.asksPolicy = all.some(({ asksPolicy }) => asksPolicy === true);
    if (all.some((environment) => environment.finish !== undefined)) this.finish = (context) => this.#finish(context);
    if (all.some((environment) => environment.branchReward !== undefined)) this.branchReward = (context) => this.#branchReward(context);
  }

  get train(): Dataset {
    return (this.#train ??= this.#rows('train'));
  }

  async start(row: Row, options: EpisodeOptions): Promise<Episode> {
    const { environment, row: own } = this.memberOf(row);
    const episode = await environment.start(own, options);
    const defaults = conventionsOf(environment);
    // An episode may be of any class, and frozen. Conventions that it leaves out come from its environment; everything else is its own.
    return new Proxy({} as Episode, {
      get: (_, key) => {
        const value = Reflect.get(episode, key) as unknown;
        if (value === undefined) return Reflect.get(defaults, key) as unknown;
        // Not bound: `await using` of V8 takes no bound function.
        return typeof value === 'function' ? (...given: unknown[]) => Reflect.apply(value, episode, given) as unknown : value;
      },
    });
  }

  memberOf(row: Row): Member {
    const member = this.#members.get(row);
    if (member === undefined) throw new ConfigError(`Row ${row.exampleId} is not a row of ${this.id}. Play rows of its own data sets.`);
    return member;
  }

  async close(): Promise<void> {
    const closed = await Promise.allSettled(Object.values(this.environments).map((environment) => environment.close()));
    const failed = closed.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
  }

  async #finish(context: RewardContext): Promise<Readonly<Record<string, unknown>>> {
    const { environment, row } = this.memberOf(context.row);
    return (await environment.finish?.({ ...context, row, parser: environment.rubric.parser })) ?? {};
  }

  #branchReward(context: BranchContext): number | null {
    const { environment, row } = this.memberOf(context.row);
    return environment.branchReward?.({ ...context, row }) ?? null;
  }

  #rows(split: 'train' | 'eval'): Dataset {
    const entries = Object.entries(this.environments).map(([task, environment]) => ({ task, environment, own: environment[split] }));
    const longest = Math.max(...entries.map(({ own }) => own.length));
    const rows = Array.from({ length: longest }, (_, i) =>
      entries
        .filter(({ own }) => i < own.length)
        .map(({ task, environment, own }) => {
          const row = own.at(i);
          const grouped = { ...row, exampleId: `${task}:${row.exampleId}`, task };
          this.#members.set(grouped, { task, environment, row });
          return grouped;
        }),
    ).flat();
    return new Dataset(entries.map(({ own }) => own.name).join('+'), rows);
  }
}

function conventionsOf({ limits, turnFormat, overlong, tokens }: Environment) {
  // `satisfies` makes a convention that is added later, and forgotten here, an error.
  return { limits, turnFormat, overlong, tokens } satisfies Record<keyof EpisodeConventions, unknown>;
}

/** Images of all stores: the same digest is the same image in each. Null if no environment has a store. */
function mergedWithoutImages(entries: readonly [string, Environment][]): string | null {
  const shown = entries.filter(([, { needs }]) => needs?.includes('images'));
  if (shown.length === 0 || shown.some(([, { withoutImages }]) => withoutImages === undefined)) return null;
  return shown.map(([task, { withoutImages }]) => `for ${task} ${withoutImages!}`).join(', and ');
}

function mergedImages(environments: readonly Environment[]): ImageStore | null {
  const stores = [...new Set(environments.flatMap(({ images }) => images ?? []))];
  const [first, ...others] = stores;
  if (first === undefined || others.length === 0) return first ?? null;
  return {
    put: (bytes, image) => first.put(bytes, image),
    get: (image) => others.reduce((found, store) => found.catch(() => store.get(image)), first.get(image)),
  };
}

function mergedLimitArguments(entries: readonly [string, Environment][]): NonNullable<Environment['limitArguments']> {
  const named = entries.flatMap(([task, { limitArguments = {} }]) =>
    Object.entries(limitArguments).map(([limit, argument]) => ({ limit, argument, task })),
  );
  return Object.fromEntries(
    Map.groupBy(named, ({ limit }) => limit)
      .entries()
      .map(([limit, all]) => [limit, all.map(({ argument, task }) => `${argument} (${task})`).join(', ')]),
  );
}

/** Merges the roles of all environments: one model plays a role for every environment that declares it. Builtin models are compared as objects, because two with one name may differ. */
function mergedRoles(entries: readonly [string, Environment][]): RoleDeclarations {
  const roles = new Map<string, { readonly task: string; readonly declaration: RoleDeclarations[string] }>();
  for (const [task, { roles: own = {} }] of entries) {
    for (const [name, declaration] of Object.entries(own)) {
      const first = roles.get(name);
      const problem = first === undefined ? null : roleConflict(first.declaration, declaration);
      if (problem !== null)
        throw new ConfigError(`The environments ${first!.task} and ${task} of the group both declare the role "${name}", ${problem}`);
      if (first === undefined) roles.set(name, { task, declaration });
    }
  }
  return Object.fromEntries([...roles].map(([name, { declaration }]) => [name, declaration]));
}

/** The reason why one model cannot play both roles, and the remedy; null if it can. */
function roleConflict(one: RoleDeclarations[string], other: RoleDeclarations[string]): string | null {
  if (one.default !== other.default) {
    return `with the defaults ${JSON.stringify(one.default)} and ${JSON.stringify(other.default)}. Give both the same default, or rename one of the roles.`;
  }
  if (one.builtin === other.builtin) return null;
  const builtins = [one, other].map(({ builtin }) => (builtin === undefined ? 'no builtin model' : `the builtin model ${builtin.name}`));
  const [first, second] = builtins;
  return first === second
    ? `each with a builtin model ${one.builtin!.name} of its own. Make the model once, in a module that both import, and declare that object in both; or rename one of the roles.`
    : `one with ${first} and one with ${second}. Declare the same model in both, or rename one of the roles.`;
}

/** Scores each rollout with the rubric of its own environment, on that environment's original row. */
class RoutedRubric extends Rubric {
  readonly #rubrics: readonly (readonly [task: string, rubric: Rubric])[];
  readonly #memberOf: (row: Row) => Member;

  constructor(environments: Readonly<Record<string, Environment>>, memberOf: (row: Row) => Member) {
    super({ funcs: [], parser: new Parser() });
    this.#rubrics = Object.entries(environments).map(([task, { rubric }]) => [task, rubric]);
    this.#memberOf = memberOf;
  }

  override readsThoughtsOf(row: Row): boolean {
    const { environment, row: own } = this.#memberOf(row);
    return readsThoughts(environment.rubric, own);
  }

  override get names(): readonly string[] {
    return [...new Set(this.#rubrics.flatMap(([, rubric]) => rubric.names))];
  }

  override get rewardNames(): readonly string[] {
    return [...new Set(this.#rubrics.flatMap(([, rubric]) => rubric.rewardNames))];
  }

  /** If tasks give one name different weights, the last one counts. */
  override get weights(): ReadonlyMap<string, number> {
    return new Map(this.#rubrics.flatMap(([, { weights }]) => [...weights]));
  }

  override get displays(): ReadonlyMap<string, MetricDisplay> {
    return new Map(this.#rubrics.flatMap(([, { displays }]) => [...displays]));
  }

  override get hasGroupRewards(): boolean {
    return this.#rubrics.some(([, rubric]) => rubric.hasGroupRewards);
  }

  override extend(funcs: ConstructorParameters<typeof Rubric>[0]['funcs']): Rubric {
    return new RubricGroup([this, new Rubric({ funcs, parser: this.parser })]);
  }

  override async settleGroup(contexts: readonly RewardContext[], run?: ScoringRunner): Promise<readonly (Score | VfError)[]> {
    const outcomes: (Score | VfError)[] = [];
    // Rollouts of one group share a row, but a caller may score several rows at once.
    for (const [environment, members] of Map.groupBy(contexts.entries(), ([, { row }]) => this.#memberOf(row).environment)) {
      const own = members.map(([, context]) => ({ ...context, row: this.#memberOf(context.row).row, parser: environment.rubric.parser }));
      const places = members.map(([i]) => i);
      const inner: ScoringRunner | undefined =
        run &&
        ((work, within, awaited) =>
          run(
            work,
            within.map((i) => places[i]!),
            awaited,
          ));
      const scores = await environment.rubric.settleGroup(own, inner);
      for (const [k, i] of places.entries()) outcomes[i] = scores[k]!;
    }
    return outcomes;
  }
}
