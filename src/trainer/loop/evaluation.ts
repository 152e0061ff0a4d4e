/** Plays the held-out rows between two steps. Recorded evaluations are not played again. */
import { evaluationValues } from '../records/batch-values.ts';
import type { RunRecords } from '../records/run-records.ts';
import { isRecorded, type RolloutPlan } from '../sources/planned-rollouts.ts';
import type { SampledBatch, SamplingPlan } from '../sources/sample-rollouts.ts';
import { totalSteps } from '../config/training-schedule.ts';
import type { TrainingRun } from '../training-session.ts';

export class Evaluation {
  readonly #run: TrainingRun;
  readonly #records: RunRecords;
  readonly #play: (plan: SamplingPlan) => Promise<SampledBatch>;
  /** Steps whose evaluation was recorded, as the current configuration wants it, when the session started. */
  readonly #recorded: ReadonlySet<number>;

  private constructor(run: TrainingRun, records: RunRecords, play: (plan: SamplingPlan) => Promise<SampledBatch>, recorded: ReadonlySet<number>) {
    this.#run = run;
    this.#records = records;
    this.#play = play;
    this.#recorded = recorded;
  }

  /** @param from the first step that may be evaluated: its size may have changed between processes */
  static async open(
    run: TrainingRun,
    records: RunRecords,
    { play, from }: { readonly play: (plan: SamplingPlan) => Promise<SampledBatch>; readonly from: number },
  ): Promise<Evaluation> {
    const recorded = new Set<number>();
    if (run.isEvaluatedAgain === true)
      for (const { step } of await records.evaluations.phases()) if (step >= from) await records.evaluations.discard(step);
    for (const { step } of await records.evaluations.complete()) {
      if (step >= from && (await isRecorded(evaluationPlan(run, records, step)))) recorded.add(step);
    }
    return new Evaluation(run, records, play, recorded);
  }

  isDue(step: number): boolean {
    const { every } = this.#run.config.evaluation;
    if (every === 0 || this.#records.rows.some((row) => row.kind === 'evaluation' && row.step === step)) return false;
    return step % every === 0 || step === totalSteps(this.#run.config);
  }

  /** Tells whether the evaluation after a step will ask the policy. */
  needsPolicy(step: number): boolean {
    return this.isDue(step) && !this.#recorded.has(step);
  }

  async run(step: number): Promise<void> {
    const { config, evaluation: environment, observer } = this.#run;
    observer.onPhase?.('evaluation', step);
    const startedAtMs = performance.now();
    const temperature = config.evaluation.temperature ?? config.rollouts.temperature;
    const plan = evaluationPlan(this.#run, this.#records, step);
    const { trajectories } = await this.#play({ ...plan, environment, temperature, isEvaluation: true });
    const seconds = (performance.now() - startedAtMs) / 1000;
    // Taken from the rollouts: if they were recorded earlier, another version may serve now.
    const version = trajectories.find(({ reward }) => reward !== null)?.policy.version ?? null;
    this.#records.row({
      kind: 'evaluation',
      step,
      values: { ...evaluationValues(trajectories), policy_version: version, evaluation_seconds: seconds },
    });
  }
}

function evaluationPlan({ config, evaluation: { eval: rows } }: TrainingRun, { evaluations: store }: RunRecords, step: number): RolloutPlan {
  const { examples, rolloutsPerExample } = config.evaluation;
  return { step, rows: [...rows.take(examples === -1 ? rows.length : examples)], rolloutsPerExample, store };
}
