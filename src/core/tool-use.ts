/**
 * Tools called in text: the model writes `<tool_call>{"name", "arguments"}</tool_call>` (the format Hermes and Qwen models are trained on), the
 * environment answers with `<tool_response>`. Plain text works with every server and is what gets trained on. A bad call is answered, never fatal.
 *
 * Differs from verifiers v0, whose ToolEnv uses the API's own tools field: docs/decisions/005-tool-calls-are-text.md.
 */
import { Ajv, type ValidateFunction } from 'ajv';
import type { Row } from './dataset.ts';
import type { EpisodeOptions } from './environment.ts';
import { ConfigError, thrownText, ToolError } from './errors.ts';
import type { Message } from './message.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv, type MultiTurnOptions } from './multi-turn.ts';
import { metric, type Rubric } from './rubric.ts';

export interface Tool {
  /** Letters, digits, `_` and `-`. */
  readonly name: string;
  /** What the model is told about it. */
  readonly description: string;
  /** JSON Schema of the arguments object. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Gets arguments that passed the schema. A string is shown as it is, anything else as JSON. What it throws is shown to the model. */
  execute(args: Record<string, unknown>, options: { readonly signal: AbortSignal }): unknown;
}

/** Checks a tool's name; for the type inference of object literals. */
export function defineTool(tool: Tool): Tool {
  if (!/^[\w-]+$/.test(tool.name)) throw new ConfigError(`Expected a tool name of letters, digits, _ and -, got "${tool.name}"`);
  return tool;
}

export interface ToolOptions<R extends Row> extends MultiTurnOptions<R> {
  readonly tools: readonly Tool[];
  /** Error classes that end the rollout with a ToolError in place of being shown to the model (an outage, say). @default none */
  readonly stopErrors?: readonly (new (...args: never[]) => Error)[];
  /** What the model reads when a tool throws. @default the error's message */
  readonly formatError?: (error: Error) => string;
}

export interface ToolState extends EpisodeState {
  /** Calls by tool name, refused ones left out. */
  calls: Record<string, number>;
  /** Calls that were not JSON, named no tool or failed its schema. */
  badCalls: number;
}

/** A call as the model wrote it, or why it cannot be read. Never throws. */
export type ParsedToolCall = { readonly name: string; readonly args: Record<string, unknown> } | { readonly problem: string };

const OPEN = '<tool_call>';
const CLOSE = '</tool_call>';

/** The calls in a model's text, in order; an unclosed last call runs to the end of the text. Linear in the text. */
export function parseToolCalls(text: string): ParsedToolCall[] {
  const calls: ParsedToolCall[] = [];
  for (let at = text.indexOf(OPEN); at !== -1;) {
    const start = at + OPEN.length;
    const end = text.indexOf(CLOSE, start);
    calls.push(parseToolCall(text.slice(start, end === -1 ? undefined : end)));
    if (end === -1) break;
    at = text.indexOf(OPEN, end);
  }
  return calls;
}

function parseToolCall(json: string): ParsedToolCall {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    return { problem: `the call is not JSON (${(error as Error).message})` };
  }
  const { name, arguments: args = {} } = (value ?? {}) as { name?: unknown; arguments?: unknown };
  if (typeof name !== 'string') return { problem: 'the call has no "name"' };
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return { problem: '"arguments" is not an object' };
  return { name, args: args as Record<string, unknown> };
}

/** Ends with `no_tools_called` when a turn calls none. Metrics: `total_tool_calls`, `bad_tool_calls` and `<tool>_calls`. */
export class ToolEnv<R extends Row = Row> extends MultiTurnEnv<R, ToolState> {
  readonly tools: readonly Tool[];
  readonly #validators: ReadonlyMap<string, ValidateFunction>;
  readonly #options: ToolOptions<R>;

  constructor(options: ToolOptions<R>) {
    super({ ...options, rubric: withToolMetrics(options.rubric, options.tools) });
    this.tools = options.tools;
    this.#options = options;
    const ajv = new Ajv({ strict: false });
    this.#validators = new Map(options.tools.map((tool) => [tool.name, ajv.compile(tool.parameters)]));
  }

  protected override prompt(row: R): readonly Message[] {
    const [first, ...rest] = row.prompt;
    const system = toolInstructions(this.tools);
    if (first?.role === 'system') return [{ role: 'system', content: `${first.content}\n\n${system}` }, ...rest];
    return [{ role: 'system', content: system }, ...row.prompt];
  }

  protected setupState(_row: R, _options: EpisodeOptions): ToolState {
    // Without a prototype: a tool may be called `constructor`.
    return { turns: 0, calls: Object.create(null) as Record<string, number>, badCalls: 0 };
  }

  protected async envResponse(kept: string, state: ToolState, signal: AbortSignal): Promise<EnvResponse> {
    const calls = parseToolCalls(kept);
    if (calls.length === 0) return { done: 'no_tools_called' };
    const answers: string[] = [];
    // In the order the model asked: a later call may rely on what an earlier one did.
    for (const call of calls) answers.push(`<tool_response>\n${await this.#answer(call, state, signal)}\n</tool_response>`);
    return { observation: answers.join('\n') };
  }

  async #answer(call: ParsedToolCall, state: ToolState, signal: AbortSignal): Promise<string> {
    const problem = 'problem' in call ? call.problem : this.#refusal(call.name, call.args);
    if (problem !== null || 'problem' in call) {
      state.badCalls += 1;
      return `Error: ${problem}`;
    }
    state.calls[call.name] = (state.calls[call.name] ?? 0) + 1;
    const tool = this.tools.find((t) => t.name === call.name)!;
    try {
      const result = await tool.execute(call.args, { signal });
      return typeof result === 'string' ? result : JSON.stringify(result ?? null);
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(thrownText(thrown));
      if (signal.aborted) throw error;
      if (this.#options.stopErrors?.some((type) => error instanceof type)) {
        throw new ToolError(`Tool "${call.name}" failed: ${error.message}`, { cause: error });
      }
      return `Error: ${this.#options.formatError?.(error) ?? error.message}`;
    }
  }

  #refusal(name: string, args: Record<string, unknown>): string | null {
    const validate = this.#validators.get(name);
    if (!validate) return `there is no tool "${name}"; the tools are ${this.tools.map((t) => t.name).join(', ')}`;
    if (validate(args)) return null;
    const [first] = validate.errors ?? [];
    return `the arguments of "${name}" are wrong: ${first?.instancePath || 'arguments'} ${first?.message ?? 'do not fit the schema'}`;
  }
}

function withToolMetrics<R extends Row>(rubric: Rubric<R>, tools: readonly Tool[]): Rubric<R> {
  return rubric.extend([
    metric(({ state }) => Object.values((state as ToolState).calls).reduce((a, b) => a + b, 0), { name: 'total_tool_calls' }),
    metric(({ state }) => (state as ToolState).badCalls, { name: 'bad_tool_calls' }),
    ...tools.map((tool) => metric<R>(({ state }) => (state as ToolState).calls[tool.name] ?? 0, { name: `${tool.name}_calls` })),
  ]);
}

function toolInstructions(tools: readonly Tool[]): string {
  const lines = tools.map(({ name, description, parameters }) => JSON.stringify({ type: 'function', function: { name, description, parameters } }));
  return [
    'You may call one or more tools. Their signatures are between <tools> and </tools>:',
    '<tools>',
    ...lines,
    '</tools>',
    'To call a tool, write its name and arguments as JSON between tags, one call per pair of tags:',
    '<tool_call>',
    '{"name": "tool name", "arguments": {"argument": "value"}}',
    '</tool_call>',
    'The results follow between <tool_response> and </tool_response>. When you need no more tools, reply without a call.',
  ].join('\n');
}
