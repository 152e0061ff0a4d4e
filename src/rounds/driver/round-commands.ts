/** What rounds need of the package's commands. The command that drives them hands it in. */
import type { TrainingRequest } from '../../sessions/training/resolve-training.ts';

/** The stages whose options stand in the file of the rounds. */
export type RoundStage = 'bucket' | 'focus' | 'extract' | 'vet' | 'rewrite' | 'finalize';

/** How a stage that asks a model names it. */
export interface StageModelOptions {
  readonly role?: string;
  readonly config?: string;
}

export interface RoundCommands {
  /** What words of vf-train ask. Throws ConfigError for words that it does not take, or with which it starts no training. */
  readonly trainingRequest: (words: readonly string[]) => TrainingRequest;
  /** Throws ConfigError for words that the stage does not take. */
  readonly stageOptions: (stage: RoundStage, words: readonly string[]) => StageModelOptions;
  /** Rejects with ConfigError if the options name no model that could be asked. Makes no connection and writes nothing. */
  readonly checkStageModel: (role: 'vetter' | 'rewriter', options: StageModelOptions) => Promise<void>;
  /** Runs a command in a process of its own. A stop is passed on and waited for: then it throws CancelledError. */
  readonly run: (name: 'vf-train' | 'vf-rounds', words: readonly string[], options: RunOptions) => Promise<EndedCommand>;
  /** Prints how many rows each stage in the folder left. */
  readonly report: (folder: string) => Promise<void>;
}

export interface RunOptions {
  readonly signal: AbortSignal;
  readonly onStart?: (pid: number) => void;
}

export interface EndedCommand {
  /** Exit code; the name of the signal for a command that somebody killed. */
  readonly status: number | NodeJS.Signals;
  readonly stdout: string;
}

/** The process that drives the rounds. */
export interface RoundsContext {
  readonly commands: RoundCommands;
  /** Environment variables; those of `.env` are added. */
  readonly variables: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  /** Values that must not be printed; the checks add those that they learn. */
  readonly secrets: Set<string>;
  /** Takes a line for the user. */
  readonly note: (line: string) => void;
  /** Called after the checks, before the first step. */
  readonly onStart: () => void;
}
