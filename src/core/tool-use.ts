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
import type { Episode, EpisodeOptions, PolicyNeed, StepContext } from './environment.ts';
import { ConfigError, EnvironmentError, ModelError, RetrievalError, thrownText, ToolError, VfError } from './errors.ts';
import type { Message, MessageContent, ToolCall } from './message.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv, type MultiTurnOptions } from './multi-turn.ts';
import { returnedText } from './returned-text.ts';
import { withToolMetrics } from './tool-metrics.ts';
import { type SdkTools, sdkTools } from './sdk-tools.ts';
import { isObject } from '../schemas/is-object.ts';
import {
  isToolCall,
  type ParsedToolCall,
  parseToolCalls,
  readToolCall,
  textBeforeCalls,
  type ToolCallAttempt,
  toolCallId,
  type ToolSpec,
} from './tool-calls.ts';
import {
  assertDistinctNames,
  type EpisodeTools,
  isToolSet,
  type ReadArguments,
  type Tool,
  type ToolExecution,
  type ToolSet,
  toolsOfSet,
} from './tool.ts';

export interface ToolOptions<R extends Row> extends MultiTurnOptions<R> {
  /** A list of tools and sets of tools, or tools of the AI SDK by name. Their names must differ. */
  readonly tools: readonly (Tool | ToolSet)[] | SdkTools;
  /**
   * `text`: the system prompt lists the tools, the model writes `<tool_call>` blocks, and one user message answers them; works with every model.
   * `native`: the model's chat template or API lists the tools, and a `tool` message answers each call; chat format only.
   * @default 'text'
   */
  readonly calls?: 'text' | 'native';
  /**
   * Error classes, such as that of an outage, that end the rollout with a ToolError instead of being shown to the model. A ModelError, a
   * RetrievalError and a ToolError always end it, as themselves. @default none
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
  readonly #sets: readonly ToolSet[];
  /** What the episode with this state has said and holds. */
  readonly #episodes = new WeakMap<ToolState, ToolEpisode>();

  constructor(options: ToolOptions<R>) {
    const { tools, sets, problem } = readTools(options.tools);
    if (problem !== null) throw new ConfigError(`The tools of the environment ${options.id} cannot be offered: ${problem}`);
    assertDistinctNames(tools, sets);
    super({ ...options, rubric: withToolMetrics(options.rubric, tools) });
    this.#sets = sets;
    if (options.calls === 'native' && this.turnFormat !== 'chat')
      throw new ConfigError('Native tool calls need turnFormat "chat", because messages answer them. Leave turnFormat out, or use calls "text".');
    this.tools = tools;
    this.#options = options;
    this.#validators = new Map(tools.filter(({ readArguments }) => readArguments === undefined).map((tool) => [tool.name, argumentsCheck(tool)]));
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

  override async start(row: R, options: EpisodeOptions): Promise<Episode> {
    const episode = await super.start(row, options);
    const held = new Map<ToolSet, EpisodeTools>();
    this.#episodes.set(episode.state as ToolState, { messages: [...episode.prompt], held });
    const end = async () => {
      const ended = await Promise.allSettled([...held.values()].map((tools) => tools[Symbol.asyncDispose]()));
      await episode[Symbol.asyncDispose]();
      const failed = ended.find((each) => each.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
    };
    return { ...episode, [Symbol.asyncDispose]: end };
  }

  override async close(): Promise<void> {
    await Promise.all(this.#sets.map((set) => set.close()));
  }

  protected setupState(_row: R, _options: EpisodeOptions): ToolState {
    // Without a prototype, because a tool may be called `constructor`.
    return { turns: 0, calls: Object.create(null) as Record<string, number>, badCalls: 0, toolErrors: 0 };
  }

  protected async envResponse(kept: string, state: ToolState, { toolCalls, signal }: StepContext): Promise<EnvResponse> {
    const calls = this.#isNative ? toolCalls.map(attemptOf) : parseToolCalls(kept);
    if (calls.length === 0) return { done: 'no_tools_called' };
    const episode = this.#episodes.get(state) ?? { messages: [], held: new Map<ToolSet, EpisodeTools>() };
    const ids = calls.map((_, i) => toolCalls[i]?.id ?? toolCallId(state.turns, i));
    const answers: string[] = [];
    // In order, because a later call may depend on an earlier one.
    for (const [i, call] of calls.entries()) answers.push(await this.#answer(call, { state, signal, callId: ids[i]!, ...episode }));
    const response: EnvResponse = this.#isNative
      ? { messages: ids.map((id, i) => ({ role: 'tool', content: answers[i]!, toolCallId: id })) }
      : { observation: answers.map((answer) => `<tool_response>\n${answer}\n</tool_response>`).join('\n') };
    const { messages = [{ role: 'user', content: response.observation! }] } = response;
    episode.messages.push(turnOf(kept, this.#isNative ? calls : [], ids), ...messages);
    return response;
  }

  async #answer(call: ParsedToolCall, { held, ...context }: AnswerContext): Promise<string> {
    const { state, signal } = context;
    const read = 'problem' in call ? call : await this.#readArguments(call.name, call.args);
    if ('problem' in read || 'problem' in call) {
      state.badCalls += 1;
      return `Error: ${'problem' in read ? read.problem : ''}`;
    }
    state.calls[call.name] = (state.calls[call.name] ?? 0) + 1;
    const tool = this.tools.find((t) => t.name === call.name)!;
    let result: unknown;
    try {
      result = await tool.execute(read.args, { ...context, held: (set) => heldOf(set, held) });
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(thrownText(thrown));
      // The policy must not read a server's failure as an answer: the rollout fails and gets no reward.
      if (signal.aborted || isFailure(error)) throw error;
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

  async #readArguments(name: string, args: Record<string, unknown>): Promise<ReadArguments> {
    const tool = this.tools.find((t) => t.name === name);
    if (tool === undefined) return { problem: `there is no tool "${name}"; the tools are ${this.tools.map((t) => t.name).join(', ')}` };
    const wrong = (what: string) => ({ problem: `the arguments of "${name}" are wrong: ${what}` });
    if (tool.readArguments !== undefined) {
      const read = await tool.readArguments(args);
      return 'problem' in read ? wrong(read.problem) : read;
    }
    const validate = this.#validators.get(name)!;
    if (validate(args)) return { args };
    const [first] = validate.errors ?? [];
    return wrong(`${first?.instancePath || 'arguments'} ${first?.message ?? 'do not fit the schema'}`);
  }
}

interface ToolEpisode {
  readonly messages: Message[];
  readonly held: Map<ToolSet, EpisodeTools>;
}

type AnswerContext = ToolEpisode & Pick<ToolExecution, 'state' | 'signal' | 'callId'>;

function heldOf(set: ToolSet, held: Map<ToolSet, EpisodeTools>): EpisodeTools {
  const tools = held.get(set) ?? set.episode();
  held.set(set, tools);
  return tools;
}

/** A failure of what stands behind a tool, or of its code, which the policy must not read as an answer. */
function isFailure(error: Error): boolean {
  return error instanceof ModelError || error instanceof RetrievalError || error instanceof ToolError || (error instanceof VfError && error.isOfCode);
}

/** The turn of the policy as later calls are told of it. */
function turnOf(kept: string, calls: readonly ParsedToolCall[], ids: readonly string[]): Message {
  if (calls.length === 0) return { role: 'assistant', content: kept };
  const toolCalls = calls.map((call, i) => ({
    id: ids[i]!,
    name: 'problem' in call ? '' : call.name,
    arguments: 'problem' in call ? '' : JSON.stringify(call.args),
  }));
  return { role: 'assistant', content: textBeforeCalls(kept, 'hermes'), toolCalls };
}

function readTools(given: ToolOptions<Row>['tools']): {
  readonly tools: readonly Tool[];
  readonly sets: readonly ToolSet[];
  readonly problem: string | null;
} {
  if (isObject(given)) return { tools: sdkTools(given), sets: [], problem: null };
  const listed: readonly unknown[] = Array.isArray(given) ? given : [];
  const sets = listed.filter(isToolSet);
  const own = Array.isArray(given) ? listed.filter((tool) => !isToolSet(tool)) : given;
  const problem = toolsProblem(own) ?? executeProblem(own as readonly Tool[]);
  const tools = listed.flatMap((tool) => (isToolSet(tool) ? toolsOfSet(tool) : [tool as Tool]));
  return { tools, sets, problem };
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
