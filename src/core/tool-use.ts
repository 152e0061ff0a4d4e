/**
 * An environment with tools. Calls are text, `<tool_call>{"name", "arguments"}</tool_call>` (the format that Hermes and Qwen models are trained on), or
 * native, in the format of the model's own chat template. A bad call is answered with an error message and does not end the episode.
 *
 * verifiers v0's ToolEnv supports native calls only: docs/decisions/005-tool-calls-are-text.md.
 */
import { Ajv, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { toolsProblem } from './check-tools.ts';
import type { Row } from './dataset.ts';
import type { EpisodeOptions, PolicyNeed, StepContext } from './environment.ts';
import { ConfigError, EnvironmentError, ModelError, RetrievalError, RewardError, thrownText, ToolError } from './errors.ts';
import { firstRepeated } from './first-repeated.ts';
import type { Message, MessageContent, ToolCall } from './message.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv, type MultiTurnOptions } from './multi-turn.ts';
import { metric, Rubric } from './rubric.ts';
import { returnedText } from './returned-text.ts';
import { RubricGroup } from './rubric-group.ts';
import { isToolCall, type ParsedToolCall, parseToolCalls, readToolCall, type ToolCallAttempt, type ToolSpec } from './tool-calls.ts';

export interface Tool extends ToolSpec {
  /**
   * Receives arguments that fit the schema. A string result is shown to the model unchanged, anything else as JSON. The message of an error that it
   * throws is shown to the model, except the message of a ModelError or a RetrievalError, which fails the rollout.
   */
  execute(args: Record<string, unknown>, options: ToolExecution): unknown;
}

interface ToolExecution {
  readonly signal: AbortSignal;
  /** State of the calling episode; a tool may change it. */
  readonly state: ToolState;
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
  if (!/^[\w-]+$/.test(tool.name)) throw new ConfigError(`The tool name "${tool.name}" must consist of letters, digits, _ and -`);
  return tool;
}

export interface ToolOptions<R extends Row> extends MultiTurnOptions<R> {
  /** Their names must differ. */
  readonly tools: readonly Tool[];
  /**
   * `text`: the system prompt lists the tools, the model writes `<tool_call>` blocks, and one user message answers them; works with every model.
   * `native`: the model's chat template or API lists the tools, and a `tool` message answers each call; chat format only.
   * @default 'text'
   */
  readonly calls?: 'text' | 'native';
  /**
   * Error classes, such as that of an outage, that end the rollout with a ToolError instead of being shown to the model. A ModelError and a
   * RetrievalError always end it, as themselves. @default none
   */
  readonly stopErrors?: readonly (new (...args: never[]) => Error)[];
  /** Formats the text that the model reads when a tool throws. @default the error's message */
  readonly formatError?: (error: Error) => string;
}

export interface ToolState extends EpisodeState {
  /** Number of executed calls by tool name. */
  calls: Record<string, number>;
  /** Number of calls that were not JSON, named no tool, or did not fit its schema. */
  badCalls: number;
  /** Number of executed calls whose tool threw an error that the model then read. */
  toolErrors: number;
}

/**
 * An environment with tools. An episode ends with `no_tools_called` when a turn calls none. Adds the metrics `total_tool_calls`, `bad_tool_calls`,
 * `tool_errors` and `<tool>_calls`. The constructor throws ConfigError if two tools share a name, a schema is unusable, or native calls are not in chat format.
 * @example new ToolEnv({ id: 'sums', eval: new Dataset('sums', rows), rubric: new Rubric({ funcs: [isRight] }), tools: [add], calls: 'native' })
 */
export class ToolEnv<R extends Row = Row> extends MultiTurnEnv<R, ToolState> {
  readonly tools: readonly Tool[];
  readonly #validators: ReadonlyMap<string, ValidateFunction>;
  readonly #options: ToolOptions<R>;

  constructor(options: ToolOptions<R>) {
    const problem = toolsProblem(options.tools) ?? executeProblem(options.tools);
    if (problem !== null) throw new ConfigError(`The tools of the environment ${options.id} cannot be offered: ${problem}`);
    super({ ...options, rubric: withToolMetrics(options.rubric, options.tools) });
    const repeated = firstRepeated(options.tools.map(({ name }) => name));
    if (repeated !== undefined) throw new ConfigError(`Two tools are called "${repeated}". Rename one.`);
    if (options.calls === 'native' && this.turnFormat !== 'chat')
      throw new ConfigError('Native tool calls need turnFormat "chat", because messages answer them. Leave turnFormat out, or use calls "text".');
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
    if (first?.role === 'system') return [{ role: 'system', content: extended(first.content, `\n\n${system}`) }, ...rest];
    return [{ role: 'system', content: system }, ...row.prompt];
  }

  protected setupState(_row: R, _options: EpisodeOptions): ToolState {
    // Without a prototype, because a tool may be called `constructor`.
    return { turns: 0, calls: Object.create(null) as Record<string, number>, badCalls: 0, toolErrors: 0 };
  }

  protected async envResponse(kept: string, state: ToolState, { toolCalls, signal }: StepContext): Promise<EnvResponse> {
    const calls = this.#isNative ? toolCalls.map(attemptOf) : parseToolCalls(kept);
    if (calls.length === 0) return { done: 'no_tools_called' };
    const answers: string[] = [];
    // In order, because a later call may depend on an earlier one.
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
    let result: unknown;
    try {
      result = await tool.execute(call.args, { signal, state });
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(thrownText(thrown));
      // The policy must not read a server's failure as an answer: the rollout fails and gets no reward.
      if (signal.aborted || error instanceof ModelError || error instanceof RetrievalError) throw error;
      if (this.#options.stopErrors?.some((type) => error instanceof type)) {
        throw new ToolError(`Tool "${call.name}" failed: ${error.message}`, { cause: error });
      }
      state.toolErrors += 1;
      const { formatError = ({ message }) => message } = this.#options;
      result = formatError(error);
      if (typeof result === 'string') return `Error: ${result}`;
      throw new EnvironmentError(`formatError of the environment ${this.id} returned ${returnedText(result)}. Return a string`, { isOfCode: true });
    }
    return this.#shown(result, call.name);
  }

  /** The policy must not read a fault of the tool's code as an answer, or as an error of its call. */
  #shown(result: unknown, tool: string): string {
    if (typeof result === 'string') return result;
    let problem = 'has no JSON';
    try {
      // `stringify` returns undefined for functions and symbols.
      const json: string | undefined = JSON.stringify(result ?? null);
      if (json !== undefined) return json;
    } catch (error) {
      problem = `cannot be written as JSON (${thrownText(error).split('\n', 1)[0]})`;
    }
    const text = `The tool "${tool}" of the environment ${this.id} returned ${returnedText(result)}, which ${problem}. Return a string, or plain data`;
    throw new EnvironmentError(text, { isOfCode: true });
  }

  #refusal(name: string, args: Record<string, unknown>): string | null {
    const validate = this.#validators.get(name);
    if (!validate) return `there is no tool "${name}"; the tools are ${this.tools.map((t) => t.name).join(', ')}`;
    if (validate(args)) return null;
    const [first] = validate.errors ?? [];
    return `the arguments of "${name}" are wrong: ${first?.instancePath || 'arguments'} ${first?.message ?? 'do not fit the schema'}`;
  }
}

/** A separate checker for each tool, because two schemas may have the same `$id`. Drafts from 2019-09 on use the 2020 dialect, all others draft 7. */
function argumentsCheck({ name, parameters }: Tool): ValidateFunction {
  const { $schema = '', $id: _, ...schema } = parameters;
  // Not the package's own Ajv: schemas of users may be of a later draft, share an $id, or hold keywords that its strict mode refuses.
  const Checker = /20(19-09|20-12)/.test(String($schema)) ? Ajv2020 : Ajv;
  try {
    return new Checker({ strict: false, logger: false, validateSchema: false }).compile(schema);
  } catch (cause) {
    throw new ConfigError(`The parameters of tool "${name}" are not a usable JSON Schema: ${thrownText(cause)}. Correct its "parameters".`, {
      cause,
    });
  }
}

function executeProblem(tools: readonly Tool[]): string | null {
  const given = tools.map((tool) => (tool as { readonly execute: unknown }).execute);
  const odd = given.findIndex((execute) => typeof execute !== 'function');
  return odd === -1 ? null : `tools[${odd}].execute must be a function, got ${returnedText(given[odd])}`;
}

function withToolMetrics<R extends Row>(rubric: Rubric<R>, tools: readonly Tool[]): Rubric<R> {
  const funcs = [
    metric<R>(({ state }) => Object.values(counted(state).calls).reduce((a, b) => a + b, 0), { name: 'total_tool_calls', isCount: true }),
    metric<R>(({ state }) => counted(state).badCalls, { name: 'bad_tool_calls', isCount: true }),
    // A subclass may make its own state, and the file of an older run may have none of it.
    metric<R>(({ state }) => counted(state).toolErrors ?? 0, { name: 'tool_errors', isCount: true }),
    ...tools.map((tool) => metric<R>(({ state }) => counted(state).calls[tool.name] ?? 0, { name: `${tool.name}_calls`, isCount: true })),
  ];
  // A subclass may score by itself, which `extend` of Rubric does not keep.
  if (rubric.constructor === Rubric || rubric.extend !== Rubric.prototype.extend) return rubric.extend(funcs);
  return new RubricGroup([rubric, new Rubric({ funcs, parser: rubric.parser })]);
}

/** Throws RewardError if an episode that was played elsewhere is scored without its state. */
function counted(state: Readonly<Record<string, unknown>>): Pick<ToolState, 'calls' | 'badCalls'> & { readonly toolErrors?: number } {
  if (state['calls'] === undefined) throw new RewardError('the calls are counted in the episode\'s state, which is missing. Pass it as "state".');
  return state as unknown as ToolState;
}

function extended(content: MessageContent, text: string): MessageContent {
  return typeof content === 'string' ? content + text : [...content, { type: 'text', text }];
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

/** The parsed form of a call: a test or a harness may pass the form in which policies give it. */
function attemptOf(call: ToolCallAttempt | ToolCall): ParsedToolCall {
  const isObjectLike = typeof call === 'object' && call !== null;
  if (isObjectLike && ('args' in call || 'problem' in call)) return call;
  if (isToolCall(call)) return readToolCall(call);
  throw new EnvironmentError(`A tool call is { id, name, args } or { id, name, arguments } with arguments as a string, got ${JSON.stringify(call)}`);
}
