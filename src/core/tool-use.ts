/**
 * An environment of tools. Calls are text that the model writes, `<tool_call>{"name", "arguments"}</tool_call>` (the format that Hermes and
 * Qwen models are trained on), or native ones, shown and spelled by the model's own chat template. A bad call is answered, never fatal.
 *
 * verifiers v0's ToolEnv knows native calls alone: docs/decisions/005-tool-calls-are-text.md.
 */
import { Ajv, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Row } from './dataset.ts';
import type { EpisodeOptions, PolicyNeed, StepContext } from './environment.ts';
import { ConfigError, thrownText, ToolError } from './errors.ts';
import { contentText, type Message } from './message.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv, type MultiTurnOptions } from './multi-turn.ts';
import { metric, type Rubric } from './rubric.ts';
import { type ParsedToolCall, parseToolCalls, type ToolSpec } from './tool-calls.ts';

export interface Tool extends ToolSpec {
  /**
   * Gets arguments that passed the schema, and the state of the episode. A string is shown as it is, anything else as JSON. What it throws
   * is shown to the model.
   */
  execute(args: Record<string, unknown>, options: ToolExecution): unknown;
}

export interface ToolExecution {
  readonly signal: AbortSignal;
  /** Of the episode that calls; a tool may change it. */
  readonly state: ToolState;
}

/** Checks a tool's name; for the type inference of object literals. */
export function defineTool(tool: Tool): Tool {
  if (!/^[\w-]+$/.test(tool.name)) throw new ConfigError(`The tool name "${tool.name}" must consist of letters, digits, _ and -`);
  return tool;
}

export interface ToolOptions<R extends Row> extends MultiTurnOptions<R> {
  readonly tools: readonly Tool[];
  /**
   * `text`: the system prompt shows the tools, the model writes `<tool_call>` blocks, one user message answers them; works with every
   * model. `native`: the model's chat template or API shows the tools, each call is answered by a `tool` message; chat format only.
   * @default 'text'
   */
  readonly calls?: 'text' | 'native';
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

/** Ends with `no_tools_called` when a turn calls none. Metrics: `total_tool_calls`, `bad_tool_calls` and `<tool>_calls`. */
export class ToolEnv<R extends Row = Row> extends MultiTurnEnv<R, ToolState> {
  readonly tools: readonly Tool[];
  readonly #validators: ReadonlyMap<string, ValidateFunction>;
  readonly #options: ToolOptions<R>;

  constructor(options: ToolOptions<R>) {
    super({ ...options, rubric: withToolMetrics(options.rubric, options.tools) });
    const names = options.tools.map(({ name }) => name);
    const repeated = names.find((name, i) => names.indexOf(name) !== i);
    if (repeated !== undefined) throw new ConfigError(`Two tools are called "${repeated}". Rename one.`);
    if (options.calls === 'native' && this.turnFormat !== 'chat')
      throw new ConfigError('Native tool calls need turnFormat "chat": each is answered by a message. Leave turnFormat out, or use calls "text".');
    this.tools = options.tools;
    this.#options = options;
    this.#validators = new Map(options.tools.map((tool) => [tool.name, argumentsCheck(tool)]));
  }

  get #isNative(): boolean {
    return this.#options.calls === 'native';
  }

  override get needs(): readonly PolicyNeed[] {
    return this.#isNative ? [...new Set<PolicyNeed>([...super.needs, 'native_tools'])] : super.needs;
  }

  protected override offeredTools(): readonly ToolSpec[] {
    if (!this.#isNative) return [];
    return this.tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
  }

  protected override prompt(row: R): readonly Message[] {
    if (this.#isNative) return row.prompt;
    const [first, ...rest] = row.prompt;
    const system = toolInstructions(this.tools);
    if (first?.role === 'system') return [{ role: 'system', content: `${contentText(first.content)}\n\n${system}` }, ...rest];
    return [{ role: 'system', content: system }, ...row.prompt];
  }

  protected setupState(_row: R, _options: EpisodeOptions): ToolState {
    // Without a prototype: a tool may be called `constructor`.
    return { turns: 0, calls: Object.create(null) as Record<string, number>, badCalls: 0 };
  }

  protected async envResponse(kept: string, state: ToolState, { toolCalls, signal }: StepContext): Promise<EnvResponse> {
    const calls = this.#isNative ? toolCalls : parseToolCalls(kept);
    if (calls.length === 0) return { done: 'no_tools_called' };
    const answers: string[] = [];
    // In the order the model asked: a later call may rely on what an earlier one did.
    for (const call of calls) answers.push(await this.#answer(call, state, signal));
    if (this.#isNative) return { messages: toolCalls.map(({ id }, i) => ({ role: 'tool', content: answers[i]!, toolCallId: id })) };
    return { observation: answers.map((answer) => `<tool_response>\n${answer}\n</tool_response>`).join('\n') };
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
      const result = await tool.execute(call.args, { signal, state });
      // JSON has no functions and no symbols: `stringify` gives undefined for them.
      return typeof result === 'string' ? result : (JSON.stringify(result ?? null) ?? String(result));
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

/** Each tool's own checker: two tools may use one `$id`. Draft 2019-09 and later by the 2020 dialect, anything else by draft 7. */
function argumentsCheck({ name, parameters }: Tool): ValidateFunction {
  const { $schema = '', $id: _, ...schema } = parameters;
  // Not the package's own Ajv: schemas of strangers may be of a later draft, share an $id, and hold what its strict mode refuses.
  const Checker = /20(19-09|20-12)/.test(String($schema)) ? Ajv2020 : Ajv;
  try {
    return new Checker({ strict: false, logger: false, validateSchema: false }).compile(schema);
  } catch (cause) {
    throw new ConfigError(
      `The parameters of tool "${name}" are no JSON Schema that can be checked: ${thrownText(cause)}. Correct its "parameters".`,
      {
        cause,
      },
    );
  }
}

function withToolMetrics<R extends Row>(rubric: Rubric<R>, tools: readonly Tool[]): Rubric<R> {
  return rubric.extend([
    metric(({ state }) => Object.values((state as ToolState).calls).reduce((a, b) => a + b, 0), { name: 'total_tool_calls', isCount: true }),
    metric(({ state }) => (state as ToolState).badCalls, { name: 'bad_tool_calls', isCount: true }),
    ...tools.map((tool) => metric<R>(({ state }) => (state as ToolState).calls[tool.name] ?? 0, { name: `${tool.name}_calls`, isCount: true })),
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
