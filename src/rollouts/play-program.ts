/** Plays a program: an environment that needs no policy. As for a policy, a failure becomes data on the record, and only cancellation is thrown. */
import { untilAborted } from '../core/abort.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment, ProgramResult } from '../core/environment.ts';
import { EnvironmentError } from '../core/errors.ts';
import type { RolloutModels } from '../core/model.ts';
import type { Random } from '../core/random.ts';
import type { TextSegment } from '../core/rubric.ts';
import { Recorder } from './recorder.ts';
import type { Played } from './rollout.ts';

export interface PlayProgramOptions<R extends Row> {
  readonly environment: Environment<R>;
  readonly row: R;
  readonly random: Random;
  /** The models of the environment's roles. @default none */
  readonly models?: RolloutModels;
  /** Aborted with a TimeoutError when the rollout's deadline passes, with anything else when the run is cancelled. */
  readonly signal: AbortSignal;
}

/** Throws CancelledError when the run is cancelled meanwhile. */
export async function playProgram<R extends Row>({ environment, row, random, models, signal }: PlayProgramOptions<R>): Promise<Played> {
  const record = new Recorder(row.prompt, environment.turnFormat, 'environment');
  record.programTurns = 0;
  try {
    const playing = environment.play!(row, { random, models: models?.models ?? {}, signal });
    const { segments, state, stop } = checked(environment.id, await untilAborted(playing, signal));
    record.scored = segments;
    record.programTurns = segments.filter(({ kind }) => kind === 'model').length;
    record.state = state;
    record.stop = stop;
  } catch (error) {
    record.fail(error, signal);
  }
  return record.finish({ version: 0, model: programName(environment) }, models?.asked ?? []);
}

/** The name of the program's models in results. */
export function programName({ id, programModels }: Pick<Environment, 'id' | 'programModels'>): string {
  return programModels?.name ?? id;
}

const KINDS: readonly unknown[] = ['model', 'prefill', 'observation', 'corrective'] satisfies TextSegment['kind'][];

/** A program in JavaScript may return anything. */
function checked(id: string, result: ProgramResult): ProgramResult {
  const { segments, state, stop } = (result ?? {}) as Partial<ProgramResult>;
  const isRight =
    Array.isArray(segments) &&
    segments.every((segment) => KINDS.includes(segment?.kind) && typeof segment.text === 'string') &&
    typeof state === 'object' &&
    state !== null &&
    typeof stop === 'string' &&
    stop !== '' &&
    stop !== 'has_error';
  if (!isRight)
    throw new EnvironmentError(
      `The program ${id} must give { segments: [{ kind, text }], state, stop } for a row: kind is one of ${KINDS.join(', ')}, and stop says why it ended. A failure is thrown.`,
    );
  return result;
}
