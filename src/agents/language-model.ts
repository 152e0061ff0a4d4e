/** The policy as a model of the AI SDK, in the same process: no server stands between the agent and its rollout. */
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  SharedV4Warning,
} from '@ai-sdk/provider';
import type { AgentRequest, AgentTurn } from './agent-request.ts';
import { AgentRefusal } from './agent-refusal.ts';
import { readCallOptions } from './language-model-request.ts';

/** Answers a request; the signal is the caller's. */
export type Ask = (request: AgentRequest, signal: AbortSignal) => Promise<readonly AgentTurn[]>;

/**
 * A model of specification 4. It rejects with the SDK's error of an API call, so that a refusal is not asked again: the message names what cannot be honoured.
 * @param name of the policy in results
 * @param ask answers one request
 * @param onRefusal hears of each request that is refused. @default nobody does
 * @example const { text } = await generateText({ model: languageModelOf('policy', (request, signal) => session.ask(request, signal)), prompt: 'Who?' });
 */
export function languageModelOf(name: string, ask: Ask, onRefusal: (refusal: AgentRefusal) => void = () => {}): LanguageModelV4 {
  let answered = 0;
  const answer = async (options: LanguageModelV4CallOptions, isStreamed: boolean): Promise<LanguageModelV4GenerateResult> => {
    const { abortSignal = new AbortController().signal } = options;
    try {
      const request = readCallOptions(name, options, isStreamed);
      const [turn] = await ask(request, abortSignal);
      answered += 1;
      return { ...resultOf(turn!, request), response: { id: `vf-${answered}`, timestamp: new Date(), modelId: name } };
    } catch (error) {
      if (!(error instanceof AgentRefusal)) throw error;
      onRefusal(error);
      throw new AgentCallError(error);
    }
  };
  return {
    specificationVersion: 'v4',
    provider: PROVIDER,
    modelId: name,
    supportedUrls: {},
    doGenerate: (options) => answer(options, false),
    async doStream(options) {
      const { content, finishReason, usage, warnings, response, providerMetadata } = await answer(options, true);
      const parts: LanguageModelV4StreamPart[] = [
        { type: 'stream-start', warnings },
        { type: 'response-metadata', ...response },
        ...content.flatMap(streamed),
        { type: 'finish', finishReason, usage, ...(providerMetadata && { providerMetadata }) },
      ];
      const stream = new ReadableStream<LanguageModelV4StreamPart>({
        start(controller) {
          for (const part of parts) controller.enqueue(part);
          controller.close();
        },
      });
      return { stream };
    },
  };
}

const PROVIDER = 'vf-search';

const MARKS = ['vercel.ai.error', 'vercel.ai.error.AI_APICallError'];

/** As the SDK's APICallError, which it tells by these marks: its copies in other packages do not share a class. */
class AgentCallError extends Error {
  override readonly name = 'AI_APICallError';
  readonly url = 'vf-search://policy';
  readonly requestBodyValues = {};
  readonly statusCode: number;
  /** A policy that failed may answer later; a refusal stays one. */
  readonly isRetryable: boolean;
  /** As the error of an OpenAI API has it: what is at fault. */
  readonly data: { readonly error: { readonly message: string; readonly param: string | null } };

  constructor(refusal: AgentRefusal) {
    super(refusal.message, { cause: refusal });
    for (const mark of MARKS) Object.defineProperty(this, Symbol.for(mark), { value: true });
    this.statusCode = refusal.status;
    this.isRetryable = refusal.status >= 500;
    this.data = { error: { message: refusal.message, param: refusal.param } };
  }
}

function resultOf(
  { content, reasoning, toolCalls, finish, usage, reasoningTokens, stopSequence }: AgentTurn,
  { unhonoured }: AgentRequest,
): LanguageModelV4GenerateResult {
  const parts: LanguageModelV4Content[] = [
    ...(reasoning === undefined ? [] : [{ type: 'reasoning' as const, text: reasoning }]),
    ...(content === '' ? [] : [{ type: 'text' as const, text: content }]),
    // As the policy wrote it, which may be no JSON: the SDK says so to the agent.
    ...toolCalls.map(({ id, name, arguments: input }) => ({ type: 'tool-call' as const, toolCallId: id, toolName: name, input })),
  ];
  const cached = usage.cachedTokens ?? undefined;
  return {
    content: parts,
    finishReason: { unified: finish === 'length' ? 'length' : toolCalls.length > 0 ? 'tool-calls' : 'stop', raw: finish },
    usage: {
      inputTokens: {
        total: usage.promptTokens,
        noCache: cached === undefined ? undefined : usage.promptTokens - cached,
        cacheRead: cached,
        cacheWrite: undefined,
      },
      outputTokens: {
        total: usage.completionTokens,
        text: reasoningTokens === undefined ? undefined : usage.completionTokens - reasoningTokens,
        reasoning: reasoningTokens,
      },
    },
    warnings: unhonoured.map((feature): SharedV4Warning => ({ type: 'unsupported', feature, details: 'The policy answers without it.' })),
    ...(stopSequence === undefined ? {} : { providerMetadata: { [PROVIDER]: { stopSequence } } }),
  };
}

function streamed(part: LanguageModelV4Content, i: number): readonly LanguageModelV4StreamPart[] {
  const id = String(i);
  if (part.type === 'text' || part.type === 'reasoning')
    return [
      { type: `${part.type}-start`, id },
      { type: `${part.type}-delta`, id, delta: part.text },
      { type: `${part.type}-end`, id },
    ];
  if (part.type !== 'tool-call') return [];
  const { toolCallId, toolName, input } = part;
  return [
    { type: 'tool-input-start', id: toolCallId, toolName },
    { type: 'tool-input-delta', id: toolCallId, delta: input },
    { type: 'tool-input-end', id: toolCallId },
    part,
  ];
}
