/** The interface of servers: tools by name, with the parameters that they take. Built-in servers, modules of the user and MCP servers implement it. */
import type { AgentPolicy } from '../core/environment.ts';
import type { KeySchema } from '../schemas/config-keys.ts';

/** Values by argument, variable or parameter name. */
export type Values = Readonly<Record<string, unknown>>;

export interface PipelineServer {
  /**
   * The schema of each parameter, with its default if it has one; a parameter that a tool uses and that has neither default nor value is an error.
   * `any`: everything in the parameter file, for servers whose parameters are not known.
   */
  readonly parameters: Readonly<Record<string, KeySchema>> | 'any';
  readonly tools: Readonly<Record<string, PipelineTool>>;
  /** It was not started, so its tools and parameters are not known. @default false */
  readonly isUnopened?: boolean;
  /** The model that its tools call with these parameters, for a run's record; `policy`: that of the run. @default none */
  readonly model?: (parameters: Values) => ServedModel | 'policy' | null;
  /** Tells whether the answers of its models show the end of their turn with these parameters. @default it asks no model */
  readonly showsEndOfTurn?: (parameters: Values) => boolean;
  /** The parameters with which they do, from those with which they do not. Comes with `showsEndOfTurn`. */
  readonly showingEndOfTurn?: (parameters: Values) => Values;
  /** Frees resources that its tools opened. */
  readonly close?: () => Promise<void>;
}

/** A model and where it is served. */
export interface ServedModel {
  readonly name: string;
  /** May hold credentials. */
  readonly url: string;
}

/** The resources of a check before the first call. */
export interface CheckContext {
  /** All parameters of the server. */
  readonly parameters: Values;
  /** The path of a file that a parameter names: in the pipeline's folder if it is not found as it is. */
  readonly resolve: (path: string) => string;
  readonly signal: AbortSignal;
  /** Takes a line about a setting that can run but is probably not meant. @default it is dropped */
  readonly warn?: (line: string) => void;
}

/** The resources of a call in addition to its arguments. */
export interface CallContext extends CheckContext {
  /** The reply to a part of this call that an earlier process recorded, by its position in the lists; undefined if there is none. */
  readonly recall: (position: number) => unknown;
  /** Records the reply to one part at once, so that a run that is killed within the call does not ask for it again. */
  readonly record: (position: number, reply: unknown) => void;
  /** The policy of the rollout, for a tool that asks it. @default the run has none */
  readonly policy?: AgentPolicy;
  /** The question at this position of the lists has failed: its reply must be null, and later calls leave it out. */
  readonly fail: (position: number, error: unknown) => void;
}

/** The names that a step and the pipeline use. */
export interface StepNames {
  /** Arguments that the step maps to something. */
  readonly inputs: readonly string[];
  /** Outputs to which the step gives another name. */
  readonly outputs: readonly string[];
  /** Tells whether this is a parameter of the server with a value, or a variable that an earlier step writes. */
  readonly isKnown: (name: string) => boolean;
}

export interface PipelineTool {
  /**
   * Inputs and outputs: `a,b->c`. A name that is one of the server's parameters is that parameter, any other a variable; `argument=name` gives the argument
   * another name. An output that is a parameter changes it for later steps. A function, if they depend on the step.
   */
  readonly io: string | ((step: StepNames) => string);
  /** A description for `vf-pipeline --help`. @default none */
  readonly description?: string;
  /** The schema of the arguments, by name. @default none: everything is allowed */
  readonly arguments?: Readonly<Record<string, KeySchema>>;
  /** Lists among its arguments that are variables belong to the same questions and must have equal lengths. @default false */
  readonly isPerItem?: boolean;
  /** A router that looks for the end of the model's turn in answers. @default false */
  readonly needsEndOfTurn?: boolean;
  /** Also gets the questions that failed, with null if a reply is missing. @default false */
  readonly takesFailed?: boolean;
  /** Checks the arguments that are parameters before the first call of the run; rejects with PipelineFileError. @default nothing to check */
  readonly check?: (parameters: Values, context: CheckContext) => Promise<void>;
  readonly run: (args: Values, context: CallContext) => Promise<Values>;
}
