/** The part that all protocols of an environment server share: one environment, the rows of one split, and the way to play a group of them. */
import { CallerPolicy } from '../../clients/caller-policy.ts';
import type { PolicyCapabilities, PolicyClient, Sampling } from '../../clients/policy-client.ts';
import { PolicyVersions } from '../../clients/policy-versions.ts';
import type { Row } from '../../core/dataset.ts';
import type { Environment } from '../../core/environment.ts';
import type { Limiter } from '../../core/limiter.ts';
import type { RoleModels } from '../../core/model.ts';
import type { RolloutError, ScoredGroup } from '../../rollouts/rollout.ts';
import { type RolloutGroup, runRollouts } from '../../rollouts/run-rollouts.ts';
import type { LocalTokenizer } from '../../tokenizer/local-tokenizer.ts';
import { withoutQuotations } from '../../transport/quotes.ts';

export type Split = 'train' | 'eval';

/** The tokenizer of callers that own the policy. */
export interface CallerTokenizer {
  readonly tokenizer: LocalTokenizer;
  readonly traits: Pick<PolicyCapabilities, 'tokenizerHash' | 'chatTemplate' | 'toolCalls' | 'beginsWithBos' | 'closingTokenId'>;
}

export interface ServedEnvironmentOptions {
  readonly environment: Environment;
  readonly split: Split;
  /** Null if the server was started without one: callers then play by messages. */
  readonly tokenizer: CallerTokenizer | null;
  /** The models of the environment's roles when a caller owns the policy; null if it has none. Throws ConfigError if a role is bound to the policy. */
  readonly callerModels: () => RoleModels | null;
  /** Removes secrets from an error's message. */
  readonly redact: (text: string) => string;
  /** Called with each rollout that failed in the environment or its rewards, because its caller may not read the reason. @default does nothing */
  readonly onFailedRollout?: (rolloutId: string, error: RolloutError) => void;
  /** @default 0 */
  readonly seed?: number;
}

/** The options for playing a group. */
export interface PlayGroupOptions {
  readonly client: PolicyClient;
  readonly models: RoleModels | null;
  readonly sampling: Sampling;
  readonly maxTokens: number | null;
  /** Restarts of an episode that failed retryably. */
  readonly maxReplays: number;
  /** Shared with other plays. @default no further limit */
  readonly slots?: Limiter;
  readonly signal: AbortSignal;
}

export class ServedEnvironment {
  readonly environment: Environment;
  readonly split: Split;
  readonly tokenizer: CallerTokenizer | null;
  readonly callerModels: ServedEnvironmentOptions['callerModels'];
  /** Removes secrets from an error's message, and what it quotes of other servers' answers. */
  readonly redact: (text: string) => string;
  readonly #seed: number;
  readonly #onFailedRollout: NonNullable<ServedEnvironmentOptions['onFailedRollout']>;
  /** Position of each row by its id as text. */
  #places: Map<string, number> | null = null;

  constructor({ environment, split, tokenizer, callerModels, redact, onFailedRollout = () => {}, seed = 0 }: ServedEnvironmentOptions) {
    this.environment = environment;
    this.split = split;
    this.tokenizer = tokenizer;
    this.callerModels = callerModels;
    this.redact = (text) => withoutQuotations(redact(text));
    this.#seed = seed;
    this.#onFailedRollout = onFailedRollout;
  }

  get rows(): Environment['eval'] {
    return this.environment[this.split];
  }

  /** True if members of a group are scored together. */
  get scoresGroups(): boolean {
    return this.environment.rubric.hasGroupRewards;
  }

  /** The row with this id; null if the split has none. */
  row(exampleId: string | number): Row | null {
    this.#places ??= new Map([...this.rows].map((row, place) => [String(row.exampleId), place]));
    const place = this.#places.get(String(exampleId));
    return place === undefined ? null : this.rows.at(place);
  }

  /** Says that there is no such row, and what to do. */
  unknownRow(exampleId: string | number): string {
    const { name, length } = this.rows;
    const like = length === 0 ? '' : `, whose ids are like ${JSON.stringify(this.rows.at(0).exampleId)}`;
    return `${JSON.stringify(exampleId)} is not among the ${length} rows of ${name} (split ${this.split})${like}. GET /v1/tasks lists them.`;
  }

  /** A policy whose samples a caller brings. Throws ConfigError if the environment cannot be played in this way. */
  callerPolicy(options: CallerPolicyParts): CallerPolicy {
    const { kind, ask, onPlayed, maxModelLen, model, version } = options;
    const common = { ask, onPlayed, maxModelLen, name: model, versions: new PolicyVersions({ version, model }) };
    return kind === 'chat' ? new CallerPolicy({ ...common, kind }) : new CallerPolicy({ ...common, kind, ...this.tokenizer! });
  }

  /** Plays groups; cancellation of the signal throws CancelledError. */
  play(groups: Iterable<RolloutGroup<Row>>, options: PlayGroupOptions & { readonly maxConcurrent: number }): AsyncGenerator<ScoredGroup, void> {
    const { models, ...others } = options;
    return runRollouts(groups, {
      ...others,
      ...(models === null ? {} : { models }),
      environment: this.environment,
      // Callers take their time; the server's own timeouts bound the waits.
      timeoutMs: null,
      seed: this.#seed,
      onRollout: ({ rolloutId, error }) => {
        if (error !== null && error.source !== 'policy' && error.source !== 'prompt') this.#onFailedRollout(rolloutId, error);
      },
    });
  }
}

interface CallerPolicyParts {
  readonly kind: 'tokens' | 'chat';
  readonly model: string;
  readonly version: number;
  readonly maxModelLen: number | null;
  readonly ask: ConstructorParameters<typeof CallerPolicy>[0]['ask'];
  readonly onPlayed: (key: string | null) => void;
}
