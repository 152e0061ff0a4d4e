/** Plays the held-out rows between two steps. Recorded evaluations are not played again. */
import { evaluationValues } from '../records/batch-values.ts';
import type { RunRecords } from '../records/run-records.ts';
import { recordedRollouts, type RolloutPlan } from '../sources/planned-rollouts.ts';
import type { SampledBatch, SamplingPlan } from '../sources/sample-rollouts.ts';
import type { BestAdapter } from './best-adapter.ts';
import { totalSteps } from '../config/training-schedule.ts';
import type { MetricsRow } from '../training-observer.ts';
import type { TrainingRun } from '../training-session.ts';
import type { Trajectory } from '../trajectory.ts';
import { assertMeasured, chosenMetric } from '../records/chosen-metric.ts';
import { comparableEvaluations, isOwnEvaluation } from '../records/usable-version.ts';

interface EvaluationParts {
  readonly play: (plan: SamplingPlan) => Promise<SampledBatch>;
  readonly best: Pick<BestAdapter, 'offer'>;
}

export class Evaluation {
  readonly #run: TrainingRun;
  readonly #records: RunRecords;
  readonly #play: (plan: SamplingPlan) => Promise<SampledBatch>;
  /** Evaluations that were recorded, as the current configuration wants them, when the session started: the version that played each, by step. */
  readonly #recorded: ReadonlyMap<number, number | null>;

  readonly #best: Pick<BestAdapter, 'offer'>;

  private constructor(run: TrainingRun, records: RunRecords, { play, best }: EvaluationParts, recorded: ReadonlyMap<number, number | null>) {
    this.#run = run;
    this.#records = records;
    this.#play = play;
    this.#best = best;
    this.#recorded = recorded;
  }

  /** @param from the first step that may be evaluated: its size may have changed between processes */
  static async open(run: TrainingRun, records: RunRecords, { from, ...parts }: EvaluationParts & { readonly from: number }): Promise<Evaluation> {
    const recorded = new Map<number, number | null>();
    // Changed settings of the update make other weights under the same version numbers.
    const again = run.isEvaluatedAgain === true ? from : run.isUpdatedOtherwise === true ? from + 1 : Infinity;
    for (const { step } of await records.evaluations.phases()) if (step >= again) await records.evaluations.discard(step);
    for (const { step } of await records.evaluations.complete()) {
      const trajectories = step < from ? null : await recordedRollouts(evaluationPlan(run, records, step));
      if (trajectories !== null) recorded.set(step, playedBy(trajectories));
    }
    const others = records.rows.length - comparableEvaluations(records.rows, run.evaluationSetup ?? null).length;
    if (run.isEvaluatedAgain === true && others > 0)
      records.report({
        kind: 'note',
        message: `${others === 1 ? 'The evaluation' : `The ${others} evaluations`} so far ${others === 1 ? 'was' : 'were'} played with another environment, temperature or other rows, so later ones are compared neither with ${others === 1 ? 'it' : 'them'} nor with the start`,
      });
    return new Evaluation(run, records, parts, recorded);
  }

  /** @param version the one that the step left: no other can be evaluated in its place */
  isDue(step: number, version: number): boolean {
    const { every } = this.#run.config.evaluation;
    const rows = comparableEvaluations(this.#records.rows, this.#run.evaluationSetup ?? null);
    const isOwn = (row: MetricsRow) => row.kind === 'evaluation' && row.step === step && isOwnEvaluation(row, version);
    if (every === 0 || rows.some(isOwn)) return false;
    return step % every === 0 || step === totalSteps(this.#run.config);
  }

  /** Tells whether the evaluation after a step will ask the policy. */
  needsPolicy(step: number, version: number): boolean {
    return this.isDue(step, version) && !this.#isRecorded(step, version);
  }

  #isRecorded(step: number, version: number): boolean {
    return this.#recorded.has(step) && (this.#recorded.get(step) ?? version) === version;
  }

  /** The policy servers must have the version, unless the evaluation is recorded. */
  async run(step: number, version: number): Promise<void> {
    const { config, evaluation: environment, observer } = this.#run;
    observer.onPhase?.('evaluation', step);
    const startedAtMs = performance.now();
    const temperature = config.evaluation.temperature ?? config.rollouts.temperature;
    const plan = evaluationPlan(this.#run, this.#records, step);
    if (!this.#isRecorded(step, version)) await this.#discardOthers(step, version);
    const { trajectories } = await this.#play({ ...plan, environment, temperature, isEvaluation: true });
    const isOnFile = this.#records.evaluations.added(step).rollouts === 0;
    const seconds = isOnFile ? null : (performance.now() - startedAtMs) / 1000;
    const values = evaluationValues(trajectories);
    const by = playedBy(trajectories);
    const chosen = chosenMetric(config.checkpoint);
    assertMeasured(config.checkpoint.best, chosen, values, this.#records.rows);
    const direction = chosen.isLowerBetter ? ({ lowerIsBetter: true } as const) : {};
    await this.#best.offer({
      metric: chosen.metric,
      step,
      version,
      value: values[chosen.metric] ?? null,
      ...direction,
    });
    const { evaluationSetup: setup } = this.#run;
    const playedWith = setup === undefined ? {} : { evaluation_setup: setup };
    this.#records.row({ kind: 'evaluation', step, values: { ...values, policy_version: by, ...playedWith, evaluation_seconds: seconds } });
  }

  /** Rollouts of another version, from before a publish failed, are not part of this version's evaluation. */
  async #discardOthers(step: number, version: number): Promise<void> {
    const { evaluations } = this.#records;
    if (!(await evaluations.phases()).some((each) => each.step === step)) return;
    const by = await recordedBy(evaluations, step);
    if (by !== null && by !== version) await evaluations.discard(step);
  }
}

async function recordedBy(store: RunRecords['evaluations'], step: number): Promise<number | null> {
  await using record = await store.open(step);
  return playedBy(record.recorded);
}

/** The version that played them; null if none finished. */
function playedBy(trajectories: readonly Trajectory[]): number | null {
  return trajectories.find(({ reward }) => reward !== null)?.policy.version ?? null;
}

function evaluationPlan({ config, evaluation: { eval: rows } }: TrainingRun, { evaluations: store }: RunRecords, step: number): RolloutPlan {
  const { examples, rolloutsPerExample } = config.evaluation;
  return { step, rows: [...rows.take(examples === -1 ? rows.length : examples)], rolloutsPerExample, store };
}
