/**
 * Models other than the policy, by role: a judge, a critic, a refiner, a frozen generator. An environment declares its roles; the user binds each to a
 * server, to the policy itself or to the environment's builtin model. Code uses this interface for all of them.
 */
import type { Message } from './message.ts';
import type { Sampling, Usage } from './sampling.ts';

export interface ModelRequest {
  /** Maximum number of new tokens, at least 1. */
  readonly maxTokens: number;
  /** Strings that end the text; they stay in it. @default none */
  readonly stop?: readonly string[];
  /** @default temperature 0, so that the same question gets the same answer */
  readonly sampling?: Partial<Sampling>;
  /** JSON Schema of the reply. Enforced only by servers that support it, so the caller must check the reply. @default none */
  readonly responseSchema?: Readonly<Record<string, unknown>>;
  /** For models in this process, such as a deterministic judge; never sent to a server. @default none */
  readonly data?: unknown;
  /** Tells whether the caller can use a reply. A cache keeps and returns only such replies, so that asking again can succeed. @default every reply */
  readonly isUsable?: (reply: ModelReply) => boolean;
  /** Called when the call begins to wait for one of the role's slots, or for the rate limit of its server. The result is disposed when the wait ends. @default not called */
  readonly onWait?: () => Disposable;
  readonly signal: AbortSignal;
}

export interface ModelReply {
  readonly text: string;
  readonly usage: Usage;
  readonly finish: 'stop' | 'length';
  /** Version of the policy that answered; null if the model is not the policy. */
  readonly version: number | null;
  /** Thoughts that the server returned outside the text. @default none */
  readonly reasoning?: string;
}

/**
 * A model that answers messages with text. Throws ModelError if it fails, CancelledError when the signal aborts.
 *
 * @example
 * const { text } = await models.judge.generate([{ role: 'user', content: 'Is 4 even? Answer yes or no.' }], { maxTokens: 4, signal });
 */
export interface Model {
  /** Its name in results: `gpt-4.1-mini`, `exact-match`. */
  readonly name: string;
  /** A server elsewhere answers, whose price is not known; it has a deadline and limits of its own. @default false */
  readonly isRemote?: boolean;
  generate(messages: readonly Message[], request: ModelRequest): Promise<ModelReply>;
}

/** Models by role. */
export type Models = Readonly<Record<string, Model>>;

/**
 * An environment's declaration of a role.
 * @example const roles = { judge: { about: 'scores the answer', default: 'builtin', builtin: exactMatchJudge() } } satisfies RoleDeclarations;
 */
export interface RoleDeclaration {
  /** The task of the model, as in `scores the answer`; shown by `--help`, by dry runs and when the role must be bound. */
  readonly about: string;
  /**
   * The player of the role if the user does not bind it: `builtin`, the environment's own model; `policy`, the run's own policy. With null, the user must
   * bind it.
   */
  readonly default: 'builtin' | 'policy' | null;
  /** The environment's own model; required for the default `builtin`. */
  readonly builtin?: Model;
}

/** Declarations by role. A name starts with a lower-case letter and may contain lower-case letters, digits, - and _. */
export type RoleDeclarations = Readonly<Record<string, RoleDeclaration>>;

/** The environment's own models of the roles whose default is `builtin`. */
export function builtinModels(roles: RoleDeclarations = {}): Models {
  const players = Object.entries(roles).flatMap(([role, { default: player, builtin }]) =>
    player === 'builtin' && builtin !== undefined ? [[role, builtin] as const] : [],
  );
  return Object.fromEntries(players);
}

/** A recorded call of a role's model. */
export interface AskedRecord {
  readonly role: string;
  readonly model: string;
  readonly version: number | null;
  readonly usage: Usage;
  readonly finish: 'stop' | 'length';
  /** Milliseconds from the first request to the reply, without the wait for a slot. */
  readonly ms: number;
  /** Milliseconds that the call waited for one of the role's slots before that. */
  readonly waitMs: number;
  /** Number of requests that were sent, retries included; 0 for a cached reply. */
  readonly attempts: number;
  readonly messages: readonly Message[];
  readonly text: string;
  /** As in `ModelReply`. @default none */
  readonly reasoning?: string;
}

/** The models for one rollout, and its calls. */
export interface RolloutModels {
  readonly models: Models;
  /** All answered calls, in the order of the answers. Grows while the rollout is played and scored. */
  readonly asked: readonly AskedRecord[];
}

/** The models of a run, as needed for playing rollouts. */
export interface RoleModels {
  /** Models whose calls are recorded with the rollout, for all its attempts and rewards. `rolloutId`: `<example id>/<index>`. */
  forRollout(rolloutId: string): RolloutModels;
}
