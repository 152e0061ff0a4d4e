/** The teacher's log-probs of a step's rollouts, and the advantage that they give. Sequences are joined by ids: the student's tokens behind the teacher's prompt. */
import { CancelledError, thrownText, TrainingError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { LogProbPass } from '../credit.ts';
import { type DistillationConfig, distillationAdvantages } from '../losses/distillation.ts';
import type { Teacher } from '../teacher.ts';
import { branchPlaces, sequencesOf, type TokenPart } from '../trajectory-branches.ts';
import type { Trajectory } from '../trajectory.ts';

export interface TeacherOptions {
  readonly teacher: Teacher;
  readonly algorithm: TrainingConfig['algorithm'];
  readonly step: number;
  readonly pass: LogProbPass;
  readonly signal: AbortSignal;
}

export interface TeacherScores {
  /** Of the targets of each trajectory that has some, [M]; NaN where unknown. */
  readonly logProbs: ReadonlyMap<Trajectory, Float64Array>;
  /** Added to the advantages, by the trajectory, [M]; null if the teacher only takes the reference's place. */
  readonly advantages: ReadonlyMap<Trajectory, Float64Array> | null;
  /** By their names in metrics.ts. */
  readonly values: Readonly<Record<string, number | null>>;
}

/** @throws {TrainingError} if it scored no token of the step; also what the teacher's source throws */
export async function teacherScores(trajectories: readonly Trajectory[], options: TeacherOptions): Promise<TeacherScores> {
  const { algorithm, step, pass } = options;
  const settings = algorithm.teacher!;
  const startMs = performance.now();
  const scored = trajectories.filter(({ targets }) => targets.length > 0);
  const found = await scoresOf(scored, options);
  const logProbs = new Map(scored.map((trajectory, i) => [trajectory, found[i]!]));
  const seconds = (performance.now() - startMs) / 1000;
  if (scored.length > 0 && found.every((values) => !values.some(Number.isFinite)))
    throw new TrainingError(
      `The teacher gave no log-prob of any token of step ${step}. Check algorithm.teacher: its window must hold the rollouts, and rows must have what algorithm.teacher.privileged names`,
    );
  const isAdvantage = settings.as === 'advantage';
  const students = await studentLogProbs(scored, { algorithm, pass, isNeeded: isAdvantage });
  const advantages = isAdvantage
    ? new Map(scored.map((trajectory, i) => [trajectory, advantagesOf(trajectory, settings, students![i]!, found[i]!)]))
    : null;
  return { logProbs, advantages, values: { ...teacherValues(found, students), teacher_seconds: seconds } };
}

/** By branch: a later branch is no continuation of an earlier one. */
function advantagesOf(trajectory: Trajectory, settings: DistillationConfig, student: Float64Array, teacher: Float64Array): Float64Array {
  const all = new Float64Array(student.length);
  for (const { from, to } of branchPlaces(trajectory))
    all.set(distillationAdvantages(settings, { student: student.subarray(from, to), teacher: teacher.subarray(from, to) }), from);
  return all;
}

/** The log-probs that the rest of the step takes as the sampling policy's; null if they are neither known nor needed. */
async function studentLogProbs(
  trajectories: readonly Trajectory[],
  { algorithm, pass, isNeeded }: Pick<TeacherOptions, 'algorithm' | 'pass'> & { readonly isNeeded: boolean },
): Promise<readonly Float64Array[] | null> {
  const isKnown = trajectories.every(({ logProbs }) => logProbs !== null);
  if (isKnown && (algorithm.oldLogProbs === 'sampler' || !isNeeded)) return trajectories.map(({ logProbs }) => logProbs!);
  return isNeeded ? pass(trajectories, 'on') : null;
}

async function scoresOf(trajectories: readonly Trajectory[], { teacher, pass, signal }: TeacherOptions): Promise<readonly Float64Array[]> {
  const { scorer, promptOf } = teacher;
  const asked: TokenPart[] = [];
  // For each sequence of each trajectory its place among those asked for; null if it has no prompt.
  const places: (number | null)[][] = [];
  for (const trajectory of trajectories) {
    const own: (number | null)[] = [];
    for (const sequence of sequencesOf(trajectory)) {
      const prompt = promptOf === undefined ? undefined : await answered(promptOf(sequence, signal), signal);
      own.push(prompt === null ? null : asked.push(prompt === undefined ? sequence : withPrompt(sequence, prompt)) - 1);
    }
    places.push(own);
  }
  const answers = await (typeof scorer === 'string' ? pass(asked, scorer) : answered(scorer.score(asked, signal), signal));
  return trajectories.map((trajectory, i) => {
    const sequences = sequencesOf(trajectory);
    const values = sequences.map(({ targets }, s) => answers[places[i]![s] ?? -1] ?? new Float64Array(targets.length).fill(NaN));
    const wrong = sequences.findIndex(({ targets }, s) => values[s]!.length !== targets.length);
    if (wrong >= 0)
      throw new TrainingError(
        `The teacher gave ${values[wrong]!.length} log-probs of ${sequences[wrong]!.targets.length} tokens of ${trajectory.rolloutId}`,
      );
    return values.length === 1 ? values[0]! : Float64Array.from(values.flatMap((each) => [...each]));
  });
}

/** Its source has tried again already. The run stops, to go on from this step once the teacher answers. */
async function answered<T>(asked: Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await asked;
  } catch (cause) {
    if (signal.aborted || cause instanceof CancelledError) throw cause;
    throw new TrainingError(`The teacher did not score the step: ${thrownText(cause)}. Correct this, then continue with -R`, { cause });
  }
}

/** Everything after the student's prompt, behind another one. */
function withPrompt({ ids, targets, promptLength }: Trajectory, prompt: Int32Array): TokenPart {
  const moved = new Int32Array(prompt.length + ids.length - promptLength);
  moved.set(prompt);
  moved.set(ids.subarray(promptLength), prompt.length);
  return { ids: moved, targets: targets.map((target) => target - promptLength + prompt.length) };
}

function teacherValues(found: readonly Float64Array[], students: readonly Float64Array[] | null) {
  let [tokens, scored, compared, difference] = [0, 0, 0, 0];
  for (const [i, values] of found.entries()) {
    tokens += values.length;
    for (const [t, value] of values.entries()) {
      if (!Number.isFinite(value)) continue;
      scored++;
      const student = students?.[i]![t] ?? NaN;
      if (!Number.isFinite(student)) continue;
      compared++;
      difference += student - value;
    }
  }
  return { teacher_kl: compared === 0 ? null : difference / compared, teacher_scored: tokens === 0 ? null : scored / tokens };
}
