/** Guards: conditions under which a run warns or stops by itself. */
import { settingNumber } from '../../core/setting-number.ts';
import { type PublishError, TrainingError } from '../../core/errors.ts';
import type { NewRun } from '../../core/new-run.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { CollapseWatch } from '../records/collapse.ts';
import { isRepeated, SKIP_REMEDIES, type SkipReason } from '../skip-reason.ts';
import type { LossTerm } from '../token-loss.ts';
import { rolesOf } from '../trajectory-branches.ts';
import { isDemonstration, type Trajectory } from '../trajectory.ts';
import type { MetricsRow, TrainingEvent } from '../training-observer.ts';
import { lossNames, type PolicyUpdate } from './update-policy.ts';

/** While publishing fails, every further step is staler. */
const MOST_FAILED_PUBLISHES = 3;

/** Rewards within each group are equal. */
const ALIKE: ReadonlySet<SkipReason['kind']> = new Set(['constant', 'cut', 'window']);

const OTHER_MODEL_FIRST = 'Correct the difference between server and trainer first (|Δlogp|, log_prob_difference_mean)';

export interface GuardsStart {
  /** Consecutive steps without an update so far, from a checkpoint. */
  readonly skipped: number;
  /** True if the servers have the weights that the session starts from. */
  readonly isServed: boolean;
  /** US dollars that the run has cost so far; null if that is unknown. @default nothing */
  readonly spentUsd?: () => number | null;
  /** @default none */
  readonly losses?: readonly Pick<LossTerm, 'name' | 'roles'>[];
  /** Rows of earlier processes of the run. @default none */
  readonly rows?: readonly MetricsRow[];
  /** The flags that lower the learning rate of a step in a new run. @default none */
  readonly lowerRate?: (step: number) => readonly string[];
  /** The new run that gets further than a run without any update. @default none */
  readonly newRun?: (reason: SkipReason) => NewRun | null;
}

export interface StepNotice {
  readonly step: number;
  readonly trajectories: readonly Trajectory[];
  /** By their names in metrics.ts. */
  readonly values: Readonly<Record<string, number | null>>;
  readonly update: Pick<PolicyUpdate, 'applied' | 'brokenLosses' | 'diverged'>;
}

export class Guards {
  readonly #config: TrainingConfig['guards'];
  readonly #report: (event: Omit<TrainingEvent, 'step'>) => void;
  /** The name of a loss by each role that it applies to; emptied at the first step with rollouts. */
  readonly #lossesOfRole: Map<string, string>;
  readonly #spentUsd: () => number | null;
  readonly #collapse: CollapseWatch;
  readonly #lowerRate: (step: number) => readonly string[];
  readonly #newRunAfter: (reason: SkipReason) => NewRun | null;
  /** No step of the run has changed the weights. */
  #isUnchanged: boolean;
  #skipped: number;
  #failedPublishes = 0;
  /** Updates since the version that serves. Infinity if the session resumed a run and has not published yet. */
  #unserved: number;

  constructor(
    config: TrainingConfig['guards'],
    { skipped, isServed, losses = [], spentUsd = () => 0, rows = [], lowerRate = () => [], newRun = () => null }: GuardsStart,
    report: (event: Omit<TrainingEvent, 'step'>) => void,
  ) {
    this.#config = config;
    this.#skipped = skipped;
    this.#unserved = isServed ? 0 : Infinity;
    this.#report = report;
    this.#spentUsd = spentUsd;
    this.#collapse = new CollapseWatch(rows);
    this.#lowerRate = lowerRate;
    this.#newRunAfter = newRun;
    this.#isUnchanged = !rows.some(({ kind, values }) => kind === 'step' && (values['optimizer_steps'] ?? 0) > 0);
    this.#lossesOfRole = new Map(losses.flatMap(({ name, roles }) => (roles ?? []).map((role) => [role, name] as const)));
  }

  /** Consecutive steps without an update. */
  get skipped(): number {
    return this.#skipped;
  }

  /** Throws TrainingError if the run has reached its cost limit, so that no further step may begin. */
  cost(): void {
    const { maxCost } = this.#config;
    const spent = this.#spentUsd();
    if (maxCost === null || (spent !== null && spent < maxCost)) return;
    if (spent === null)
      throw new TrainingError(
        `Stopped because a server of the models by role reports no usage, so what they cost is unknown and the limit of ${maxCost} US dollars (guards.max_cost) cannot be kept. ` +
          'Use a server that reports usage, or set its price to 0 in configs/endpoints.toml, and continue with -R',
      );
    throw new TrainingError(
      `Stopped because the run has cost ${spent.toFixed(4)} US dollars, and the limit is ${maxCost} (guards.max_cost). Continue with -R and a higher --max-cost`,
      { resumeFlags: ['--max-cost', settingNumber(Number((2 * Math.max(maxCost, spent)).toPrecision(2)))] },
    );
  }

  /**
   * Counts the step. Returns the error that ends the run after too many such steps in a row. Throw it only once the earlier steps are saved.
   * @param found why the step changed nothing; null if it was applied
   * @param lowerRate the flags that lower the learning rate
   */
  step(found: SkipReason | null, lowerRate: readonly string[] = []): TrainingError | null {
    const reason = this.#sinceCollapse(found);
    if (reason === null) {
      this.#skipped = 0;
      this.#isUnchanged = false;
      this.#unserved++;
      return null;
    }
    this.#skipped++;
    this.#report({ kind: 'step_skipped', message: `No update: ${reason.text}`, reason: reason.kind });
    if (this.#skipped < this.#config.maxSkippedSteps) return null;
    const newRun = this.#isUnchanged ? this.#newRunAfter(reason) : null;
    return new TrainingError(
      `Stopped after ${this.#skipped} steps in a row without an update (guards.max_skipped_steps); the last: ${reason.text}. ${this.#remedyOf(reason)}`,
      { resumeFlags: newRun === null ? this.#afterSkips(reason, lowerRate) : null, newRun },
    );
  }

  /** Rewards that are all equal after a collapse are its consequence. */
  #sinceCollapse(reason: SkipReason | null): SkipReason | null {
    const { found } = this.#collapse;
    if (reason === null || !ALIKE.has(reason.kind) || found === null) return reason;
    return { kind: 'collapsed', text: `${reason.plain ?? reason.text}, after the policy collapsed in the update of step ${found.step}` };
  }

  #remedyOf({ kind }: SkipReason): string {
    const { found } = this.#collapse;
    return kind === 'collapsed' && found !== null ? `Figures: ${found.text}. ${this.#newRun(found.step)}` : SKIP_REMEDIES[kind];
  }

  #newRun(step: number): string {
    return `Start a new run with ${this.#lowerRate(step).join(' ')}: this one continues from the collapsed policy`;
  }

  /** The sampling of a run cannot change, but further rows may have rewards that differ. What is wrong outside the run is corrected there. */
  #afterSkips(reason: SkipReason, lowerRate: readonly string[]): readonly string[] | null {
    const { kind } = reason;
    if (isRepeated(reason)) return null;
    if (kind === 'not_finite' || kind === 'diverged') return lowerRate;
    // A corrected module has another digest.
    if (kind === 'empty' || kind === 'overflow' || kind === 'underflow') return ['--allow-changes'];
    return kind === 'constant' || kind === 'cut' || kind === 'masked' ? ['--set', `guards.max_skipped_steps=${2 * this.#skipped}`] : [];
  }

  /** Throws TrainingError after too many failures in a row. Throws at once if no later version can be published either, or if the version that serves is much older. */
  publish(failure: PublishError | null): void {
    this.#failedPublishes = failure === null ? 0 : this.#failedPublishes + 1;
    if (failure === null) {
      this.#unserved = 0;
      return;
    }
    this.#report({ kind: 'publish_failed', message: failure.message });
    if (failure.endsRun) throw new TrainingError(`Stopped because no version can be published: ${failure.message}`, { cause: failure });
    if (this.#unserved > MOST_FAILED_PUBLISHES)
      throw new TrainingError(`Stopped because the version that serves is too far behind what was trained: ${failure.message}`, { cause: failure });
    if (this.#failedPublishes < MOST_FAILED_PUBLISHES) return;
    throw new TrainingError(`Stopped after ${this.#failedPublishes} failed publishes in a row; the last: ${failure.message}`, {
      cause: failure,
    });
  }

  /** Raises an alarm if this row is the first to show that updates destroyed the policy. */
  collapse(row: MetricsRow): void {
    const collapse = this.#collapse.see(row);
    if (collapse === null) return;
    const remedy = this.#isOtherModel(row.values) ? `${OTHER_MODEL_FIRST}, then start a new run` : this.#newRun(collapse.step);
    this.#report({ kind: 'alarm', message: `The policy has collapsed: ${collapse.text}. ${remedy}` });
  }

  /** Reports an update that destroyed the policy, sequences that an update left out, and roles of losses that no rollout has. */
  notice({ step, trajectories, values, update }: StepNotice): void {
    this.collapse({ kind: 'step', step, values });
    const dropped = values['sequences_dropped'] ?? 0;
    // If nothing was updated, `step` reports the reason.
    if (dropped > 0 && update.applied > 0) {
      const { brokenLosses: broken } = update;
      const what = broken.length > 0 ? `the gradient of ${lossNames(broken)} was not finite` : 'their log-probs or gradient were not finite';
      this.#report({
        kind: 'alarm',
        message: `${dropped} ${dropped === 1 ? 'sequence was' : 'sequences were'} left out of the update (sequences_dropped): ${what}`,
      });
    }
    const tokens = values['tokens_dropped'] ?? 0;
    if (tokens > 0)
      this.#report({
        kind: 'alarm',
        message: `${tokens} ${tokens === 1 ? 'token was' : 'tokens were'} left out of the update (tokens_dropped): the old or the reference policy has no finite log-prob of ${tokens === 1 ? 'it' : 'them'}`,
      });
    if (update.diverged > 0 && update.applied > 0)
      this.#report({
        kind: 'alarm',
        message: `${update.diverged} of ${update.diverged + update.applied} optimiser steps were skipped, because the KL was above guards.skip_kl (approx_kl): lower the learning rate or take fewer updates per batch`,
      });
    const roles = new Set(trajectories.filter((each) => !isDemonstration(each)).flatMap(rolesOf));
    if (roles.size === 0 || this.#lossesOfRole.size === 0) return;
    const missing = [...this.#lossesOfRole].filter(([role]) => !roles.has(role));
    this.#lossesOfRole.clear();
    for (const [role, name] of missing)
      this.#report({
        kind: 'alarm',
        message: `losses.${name} applies to the role "${role}", but no rollout of this step has it (roles: ${[...roles].join(', ')}). Check losses.${name}.roles`,
      });
  }

  /** True if the server's log-probs are so far from the trainer's that nothing else explains what the update did. */
  #isOtherModel(values: StepNotice['values']): boolean {
    return (values['log_prob_difference_mean'] ?? 0) > (this.#config.maxLogProbDifference ?? Infinity);
  }

  /**
   * Throws TrainingError if an alarm is configured to stop the run.
   * @param lowerRate the flags that lower the learning rate
   */
  watch(values: Readonly<Record<string, number | null>>, lowerRate: readonly string[] = []): void {
    const { minEntropy, maxKl, maxLogProbDifference, onAlarm } = this.#config;
    const { kl = null, approx_kl: approxKl } = values;
    // The first is the distance from the reference, which grows over a run; the second that of a step.
    const [distance, remedy] =
      kl === null
        ? [approxKl, 'the policy moves too far in a step; lower the learning rate']
        : [kl, 'the policy is far from its reference; raise algorithm.kl.coefficient or lower the learning rate'];
    const isOther = this.#isOtherModel(values);
    const alarms = [
      above(
        'Mean |Δ log-prob| between server and trainer',
        values['log_prob_difference_mean'],
        maxLogProbDifference,
        'guards.max_log_prob_difference',
        'server and trainer run different models; check base, dtype, temperature and adapter, and the log-probs of rollouts that another program wrote',
      ),
      below(
        'Entropy',
        values['entropy'],
        minEntropy,
        'guards.min_entropy',
        isOther ? OTHER_MODEL_FIRST : 'the policy has almost collapsed; lower the learning rate or raise clip_high',
      ),
      above('KL', distance, maxKl, 'guards.max_kl', isOther ? OTHER_MODEL_FIRST : remedy),
    ].filter((alarm) => alarm !== null);
    const [first] = alarms;
    const { found } = this.#collapse;
    if (onAlarm === 'stop' && found !== null)
      throw new TrainingError(`Stopped by an alarm: the policy has collapsed: ${found.text}. ${this.#newRun(found.step)}`);
    for (const { message } of alarms) this.#report({ kind: 'alarm', message });
    if (first === undefined || onAlarm !== 'stop') return;
    if (first.key === 'guards.max_log_prob_difference') throw new TrainingError(`Stopped by an alarm: ${first.message}, then continue with -R`);
    throw new TrainingError(
      `Stopped by an alarm: ${first.message}. The next step would start where this one ended and stop again: continue with a lower learning rate and guards.on_alarm = "warn", or start a new run with other settings`,
      { resumeFlags: [...lowerRate, '--set', 'guards.on_alarm=warn'] },
    );
  }
}

interface Alarm {
  /** Of the setting. */
  readonly key: string;
  readonly message: string;
}

function below(what: string, value: number | null | undefined, bound: number | null, key: string, remedy: string): Alarm | null {
  if (bound === null || value === null || value === undefined || value >= bound) return null;
  return { key, message: `${what} is ${value.toPrecision(3)} nats, below ${bound} (${key}): ${remedy}` };
}

function above(what: string, value: number | null | undefined, bound: number | null, key: string, remedy: string): Alarm | null {
  if (bound === null || value === null || value === undefined || value <= bound) return null;
  return { key, message: `${what} is ${value.toPrecision(3)} nats, above ${bound} (${key}): ${remedy}` };
}
