/**
 * Models beside the policy, by role: a judge, a critic, a refiner, a frozen generator. An environment declares its roles; the user binds
 * each to a server, to the policy itself or to what the environment brings. Whatever stands behind a role, code sees this interface.
 */
import type { Message } from './message.ts';
import type { Sampling, Usage } from './sampling.ts';

export interface ModelRequest {
  /** New tokens at most, from 1 up. */
  readonly maxTokens: number;
  /** Strings that end the text; they stay in it. @default none */
  readonly stop?: readonly string[];
  /** @default temperature 0, top_p 1: the same question gets the same answer */
  readonly sampling?: Partial<Sampling>;
  /** JSON Schema of the reply. Servers that can are made to keep to it; the caller checks the reply in any case. */
  readonly responseSchema?: Readonly<Record<string, unknown>>;
  /** For a model in this process alone (a deterministic judge in a test, say); never sent to a server. */
  readonly data?: unknown;
  readonly signal: AbortSignal;
}

export interface ModelReply {
  readonly text: string;
  readonly usage: Usage;
  readonly finish: 'stop' | 'length';
  /** Version of the policy that answered; null where the model has no versions. */
  readonly version: number | null;
}

/**
 * A model that answers messages with text. Throws ModelError when it cannot.
 *
 * @example
 * const { text } = await models.judge.generate([{ role: 'user', content: 'Is 4 even? Answer yes or no.' }], { maxTokens: 4, signal });
 */
export interface Model {
  /** What to call it in results: `gpt-4.1-mini`, `builtin`. */
  readonly name: string;
  generate(messages: readonly Message[], request: ModelRequest): Promise<ModelReply>;
}

/** Models by role. */
export type Models = Readonly<Record<string, Model>>;

/** What an environment says of a role that it plays with. */
export interface RoleDeclaration {
  /** What the model is asked for, in a sentence; shown by `--help`, by dry runs and where it must be bound. */
  readonly about: string;
  /**
   * What plays the role when the user binds nothing: `builtin` what the environment brings, `policy` the run's own server. With null the
   * user must bind it.
   */
  readonly default: 'builtin' | 'policy' | null;
  /** What the environment brings, required for the default `builtin`. */
  readonly builtin?: Model;
}

export type RoleDeclarations = Readonly<Record<string, RoleDeclaration>>;

/** One call of a model by role, as it is recorded with its rollout. */
export interface AskedRecord {
  readonly role: string;
  readonly model: string;
  readonly version: number | null;
  readonly usage: Usage;
  readonly finish: 'stop' | 'length';
  /** Milliseconds from the request to the reply, the wait for a slot left out. */
  readonly ms: number;
  /** Milliseconds that the call waited for a slot of its role before that. */
  readonly waitMs: number;
  /** Requests sent, from 1 up; 0 where the reply came from a cache. */
  readonly attempts: number;
  readonly messages: readonly Message[];
  readonly text: string;
}

/** The models as one rollout asks them. */
export interface RolloutModels {
  readonly models: Models;
  /** Every call that was answered, in the order of the answers. Grows while the rollout is played and scored. */
  readonly asked: readonly AskedRecord[];
}

/** The models of a run, as far as whoever plays rollouts sees them. */
export interface RoleModels {
  /** `rolloutId`: `<example id>/<index>`. One for each rollout, for all its attempts and its rewards: what was asked is recorded with it. */
  forRollout(rolloutId: string): RolloutModels;
}
