/** The commands of the package that rounds need. The command that drives them passes them in. */
import type { RoleTables } from '../../schemas/roles-config.ts';
import type { TrainingRequest } from '../../sessions/training/resolve-training.ts';

/** The stages whose options are in the file of the rounds. */
export type RoundStage = 'bucket' | 'verify' | 'focus' | 'extract' | 'vet' | 'rewrite' | 'finalize';

/** The options by which a stage that calls a model names it. */
export interface StageModelOptions {
  readonly role?: RoleTables;
  readonly config?: string;
}

export interface RoundCommands {
  /** The request that words of vf-train make. Throws ConfigError for words that it does not take, or with which it starts no training. */
  readonly trainingRequest: (words: readonly string[]) => TrainingRequest;
  /** Throws ConfigError for words that the stage does not take. */
  readonly stageOptions: (stage: RoundStage, words: readonly string[]) => StageModelOptions;
  /** Runs a command in a separate process. On a stop, passes the signal on, waits for the end, and throws CancelledError unless the command was done by then. */
  readonly run: (name: 'vf-train' | 'vf-rounds', words: readonly string[], options: RunOptions) => Promise<EndedCommand>;
  /** Prints this text for the user. */
  readonly print: (text: string) => void;
}

export interface RunOptions {
  readonly signal: AbortSignal;
  readonly onStart?: (pid: number) => void;
}

export interface EndedCommand {
  /** Exit code, or the name of the signal that killed the command. */
  readonly status: number | NodeJS.Signals;
  readonly stdout: string;
}

/** The process in which a stage runs. */
export interface StageContext {
  /** Environment variables; those of `.env` are added. */
  readonly variables: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  /** Values that must not be printed; checks and stages add those that they learn. */
  readonly secrets: Set<string>;
  /** Takes a line for the user. */
  readonly note: (line: string) => void;
  /** The folder of what the stage wrote, once all of it is there: a signal then changes no exit code. @default null */
  saved?: string | null;
}

/** The process that drives the rounds. */
export interface RoundsContext extends StageContext {
  readonly commands: RoundCommands;
  /** Called after the checks, before the first step. */
  readonly onStart: () => void;
  /** Called after the last step, before the report is printed, with the folder of the rounds. */
  readonly onPlayed: (output: string) => void;
}
