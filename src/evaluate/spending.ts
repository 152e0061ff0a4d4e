/** The tokens that a run has paid for: those of its policy and of the models by role. */
import type { AskedRecord } from '../core/model.ts';
import { billed, type BilledTokens, callTokens, NO_TOKENS, plusTokens } from '../core/price.ts';
import type { RolloutUsage } from '../rollouts/rollout.ts';
import type { RecordedRollout } from './recorded-rollout.ts';
import type { WireSpending } from '../schemas/run-cost.ts';

export class Spending {
  #policy: BilledTokens = NO_TOKENS;
  readonly #roles = new Map<string, BilledTokens>();

  static of({ policy, roles }: WireSpending): Spending {
    const spending = new Spending();
    spending.#policy = policy;
    for (const [role, tokens] of Object.entries(roles)) spending.#addRole(role, tokens);
    return spending;
  }

  get policy(): BilledTokens {
    return this.#policy;
  }

  get roles(): ReadonlyMap<string, BilledTokens> {
    return this.#roles;
  }

  get isNothing(): boolean {
    return [this.#policy, ...this.#roles.values()].every(({ input, output, uncounted }) => input === 0 && output === 0 && uncounted === undefined);
  }

  addUsage({ inputTokens, outputTokens, cachedTokens }: RolloutUsage): void {
    this.#policy = plusTokens(this.#policy, billed(inputTokens, outputTokens, cachedTokens));
  }

  /** All attempts at the rollout. */
  addRollout({ usage, repeatedUsage, turns }: PlayedUsage): void {
    this.addUsage(usage);
    if (repeatedUsage !== undefined) this.addUsage(repeatedUsage);
    if (turns > 0 && usage.inputTokens + usage.outputTokens === 0) this.#policy = plusTokens(this.#policy, { ...NO_TOKENS, uncounted: turns });
  }

  /** Replies from a role's own cache cost nothing. */
  addAsked(asked: readonly Pick<AskedRecord, 'role' | 'attempts' | 'usage'>[]): void {
    for (const { role, attempts, usage } of asked) {
      if (attempts > 0) this.#addRole(role, callTokens(usage));
    }
  }

  plus(other: Spending): Spending {
    const sum = Spending.of(this.toWire());
    sum.#policy = plusTokens(sum.#policy, other.#policy);
    for (const [role, tokens] of other.#roles) sum.#addRole(role, tokens);
    return sum;
  }

  toWire(): WireSpending {
    return { policy: { ...this.#policy }, roles: Object.fromEntries([...this.#roles].map(([role, tokens]) => [role, { ...tokens }])) };
  }

  #addRole(role: string, tokens: BilledTokens): void {
    this.#roles.set(role, plusTokens(this.#roles.get(role) ?? NO_TOKENS, tokens));
  }
}

type PlayedUsage = Pick<RecordedRollout, 'usage' | 'repeatedUsage' | 'turns'>;

/** The tokens that a run spent on the rollouts that it keeps, and on those that it played again. */
export class RunSpending {
  /** Everything. */
  readonly all: Spending;
  /** Of `all`: failed attempts and dropped rollouts. */
  readonly repeated: Spending;
  /** Of `repeated`: rollouts that resumes dropped. Their lines are gone, so the metadata keeps the sum. */
  readonly dropped: Spending;

  /** `kept`: calls of models by role in the kept rollouts. */
  constructor({ kept = new Spending(), dropped = new Spending() }: { readonly kept?: Spending; readonly dropped?: Spending } = {}) {
    this.dropped = dropped;
    this.repeated = new Spending().plus(dropped);
    this.all = kept.plus(dropped);
  }

  addRollout(rollout: PlayedUsage): void {
    this.all.addRollout(rollout);
    if (rollout.repeatedUsage !== undefined) this.repeated.addUsage(rollout.repeatedUsage);
  }
}
