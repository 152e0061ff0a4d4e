/** The tools of a ToolEnv: functions of the environment, and sets that hold something open, such as a server. */
import { ConfigError } from './errors.ts';
import { firstRepeated } from './first-repeated.ts';
import type { Message } from './message.ts';
import type { ToolSpec } from './tool-calls.ts';
import type { ToolState } from './tool-use.ts';

export interface Tool extends ToolSpec {
  /**
   * Receives arguments that fit the schema. A string result is shown to the model unchanged, anything else as JSON. The message of an error that it
   * throws is shown to the model, except the message of a ModelError, a RetrievalError or a ToolError, which fails the rollout.
   */
  execute(args: Record<string, unknown>, options: ToolExecution): unknown;
  /** Checks the arguments in place of the schema, and may change them. @default the schema checks them */
  readonly readArguments?: (args: Record<string, unknown>) => ReadArguments | Promise<ReadArguments>;
}

/** The arguments as `execute` gets them, or what is wrong with them, which the model reads. */
export type ReadArguments = { readonly args: Record<string, unknown> } | { readonly problem: string };

/** What a tool gets with its arguments. */
export interface ToolExecution {
  readonly signal: AbortSignal;
  /** State of the calling episode; a tool may change it. */
  readonly state: ToolState;
  /** Names the call in its turn and episode. */
  readonly callId: string;
  /** The conversation before the turn that calls. */
  readonly messages: readonly Message[];
  /** What this episode holds of a set of tools. */
  readonly held: (set: ToolSet) => EpisodeTools;
}

/** Tools that hold something open for the environment, such as those of `mcpTools`; the environment closes it. */
export interface ToolSet {
  readonly tools: readonly ToolSpec[];
  /** What one episode asks; nothing is opened before its first call. */
  episode(): EpisodeTools;
  close(): Promise<void>;
}

/** The tools of a set during one episode. Dispose them at its end. */
export interface EpisodeTools extends AsyncDisposable {
  /** Rejects with ToolError if the set failed, and with any other error for one that the model should read. */
  call(name: string, args: Readonly<Record<string, unknown>>, options: { readonly signal: AbortSignal }): Promise<string>;
}

/**
 * Types a tool and checks its name. Throws ConfigError unless the name consists of letters, digits, _ and -.
 * @example
 * const add = defineTool({
 *   name: 'add',
 *   description: 'Adds two numbers.',
 *   parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
 *   execute: ({ a, b }) => Number(a) + Number(b),
 * });
 */
export function defineTool(tool: Tool): Tool {
  assertToolName(tool.name);
  return tool;
}

export function assertToolName(name: string): void {
  if (!/^[\w-]+$/.test(name)) throw new ConfigError(`The tool name "${name}" must consist of letters, digits, _ and -`);
}

/** Throws ConfigError if two tools share a name. `sets`: those among whose tools they are. */
export function assertDistinctNames(tools: readonly ToolSpec[], sets: readonly ToolSet[]): void {
  const repeated = firstRepeated(tools.map(({ name }) => name));
  if (repeated !== undefined)
    throw new ConfigError(`Two tools are called "${repeated}". Rename one${sets.length === 0 ? '' : ', or give the tools of a server a prefix'}.`);
}

export function isToolSet(value: unknown): value is ToolSet {
  const { tools, episode, close } = (value ?? {}) as Partial<ToolSet>;
  return Array.isArray(tools) && typeof episode === 'function' && typeof close === 'function';
}

/** The tools of a set as those of an environment. The server behind them checks their arguments itself: its schemas are a stranger's, whose patterns could try without end. */
export function toolsOfSet(set: ToolSet): readonly Tool[] {
  return set.tools.map((spec) => ({
    ...spec,
    readArguments: (args) => ({ args }),
    execute: (args, { signal, held }) => held(set).call(spec.name, args, { signal }),
  }));
}
