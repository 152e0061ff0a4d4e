/** `POST /v1/chat/completions`. Tool calls in an answer stay text, as in vLLM without a tool parser. */
import type { Context } from 'hono';
import type { Generation } from '../../engine/engine-types.ts';
import type { ChatPrompt, ChatRequest } from '../../schemas/policy-server/chat-request.ts';
import { ChatTemplate } from '../../tokenizer/chat-template.ts';
import { CHATML_TEMPLATE, CHATML_TOKENS } from '../../tokenizer/chatml.ts';
import { chatLogProbs, chatMessage } from './chat-answer.ts';
import { type ChoicePart, ChoiceStream } from './choice-stream.ts';
import { type TokenCounts, wirePromptLogProbs, wireUsage } from './completion-answer.ts';
import { eventStream } from './event-stream.ts';
import { checkChoices, jobsFor } from './generation-jobs.ts';
import { PolicyRefusal } from './policy-refusal.ts';
import type { GenerationJob, ServedEngine } from './served-engine.ts';

interface Plan {
  readonly request: ChatRequest;
  readonly prompt: Int32Array;
  readonly promptText: string | null;
  readonly jobs: readonly GenerationJob[];
  readonly role: string;
  readonly head: { readonly id: string; readonly created: number; readonly model: string };
}

/** vLLM's message, by which clients recognize a model without a template. */
const NO_TEMPLATE =
  'As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one.';

const CHATML = ChatTemplate.of(CHATML_TEMPLATE, {});

/** Throws a refusal if the model has no template, or the template rejects these messages. */
export function renderChat(prompt: ChatPrompt, served: ServedEngine) {
  const { tokenizer } = served.engine;
  if (!tokenizer.hasChatTemplate) throw new PolicyRefusal(400, NO_TEMPLATE);
  return renderWith(tokenizer.renderChat.bind(tokenizer), prompt, served);
}

/**
 * A model without a template answers chats in ChatML if its tokenizer has ChatML's tokens. Its turns then end with `<|im_end|>`, even if its own end token
 * is another. vLLM refuses such a chat.
 */
function renderForAnswer(prompt: ChatPrompt, served: ServedEngine) {
  const endTokenId = served.engine.tokenizer.hasChatTemplate ? null : chatmlEnd(served);
  if (endTokenId === null) return { ...renderChat(prompt, served), stopTokenIds: [] };
  return { ...renderWith(CHATML.render.bind(CHATML), prompt, served), stopTokenIds: [endTokenId] };
}

function renderWith(render: ChatTemplate['render'], prompt: ChatPrompt, served: ServedEngine) {
  const { messages, variables, addGenerationPrompt, continueFinalMessage, addSpecialTokens } = prompt;
  const length = messages.reduce((sum, { content }) => sum + (typeof content === 'string' ? content.length : 0), 0);
  served.checkTextLength(length);
  const text = render(messages, { addGenerationPrompt, continueFinalMessage, variables });
  return { text, ids: served.encode(text, { addSpecialTokens }) };
}

/** Null if the tokenizer lacks one of ChatML's control tokens. */
function chatmlEnd({ engine: { tokenizer } }: ServedEngine): number | null {
  const ids = CHATML_TOKENS.map((text) => tokenizer.encode(text, { addSpecialTokens: false }));
  const areControl = ids.every((one) => one.length === 1 && tokenizer.isSpecial(one[0]!));
  return areControl ? ids[1]![0]! : null;
}

export async function answerChat(c: Context, request: ChatRequest, served: ServedEngine): Promise<Response> {
  const model = served.model(request.model);
  checkChoices(served, 1, request.n);
  const { text, ids: prompt, stopTokenIds } = renderForAnswer(request, served);
  const { maxTokens, logProbs, promptLogProbs } = request;
  const fields = { ...request, stopTokenIds: [...request.stopTokenIds, ...stopTokenIds] };
  const jobs = jobsFor(served, { model, fields, prompts: [prompt], maxTokens, logProbs, promptLogProbs });
  const id = `chatcmpl-${served.requestId(c.req.header('x-request-id') ?? request.requestId)}`;
  const head = { id, created: Math.floor(Date.now() / 1000), model: model.name };
  const role = request.addGenerationPrompt ? 'assistant' : String(request.messages.at(-1)!['role']);
  const plan = { request, prompt, promptText: request.returnPromptText ? text : null, jobs, role, head };
  return request.stream ? streamed(c, plan, served) : whole(c, plan, served);
}

async function whole(c: Context, { request, prompt, promptText, jobs, role, head }: Plan, served: ServedEngine): Promise<Response> {
  const generations = await served.generate(jobs, { client: c.req.raw.signal });
  const [{ promptLogProbs }] = generations as [Generation];
  const { id, ...rest } = head;
  return c.json({
    id,
    object: 'chat.completion',
    ...rest,
    choices: generations.map((generation, index) => chatChoice(request, { index, generation, role, served })),
    service_tier: null,
    system_fingerprint: served.fingerprint,
    usage: wireUsage(countsOf(prompt, generations)),
    prompt_logprobs: promptLogProbs === null ? null : wirePromptLogProbs(prompt, promptLogProbs, served.strings),
    prompt_token_ids: request.returnTokenIds ? [...prompt] : null,
    prompt_text: promptText,
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  });
}

function chatChoice(
  { logProbs, tokensAsIds, returnTokenIds }: ChatRequest,
  { index, generation, role, served }: { index: number; generation: Generation; role: string; served: ServedEngine },
) {
  const options = { strings: served.strings, tokensAsIds, before: new Int32Array(0), top: logProbs ?? 0 };
  return {
    index,
    message: chatMessage(role, generation.text),
    logprobs: logProbs === null ? null : chatLogProbs(generation, options),
    finish_reason: generation.finish,
    stop_reason: generation.stopReason,
    token_ids: returnTokenIds ? [...generation.ids] : null,
    routed_experts: null,
  };
}

function streamed(c: Context, { request, prompt, promptText, jobs, role, head }: Plan, served: ServedEngine): Promise<Response> {
  const { returnTokenIds, includeUsage } = request;
  const { id, ...rest } = head;
  const chunk = { id, object: 'chat.completion.chunk', ...rest };
  const leaving = new AbortController();
  const choices = jobs.map(() => new ChoiceStream());
  const produce = async (send: (data: object) => void) => {
    let hasBegun = false;
    const begin = () => {
      if (hasBegun) return;
      hasBegun = true;
      for (const index of jobs.keys()) {
        const opening = { index, delta: { role, content: '' }, logprobs: null, finish_reason: null };
        const shown = { prompt_token_ids: returnTokenIds ? [...prompt] : null, ...(promptText === null ? {} : { prompt_text: promptText }) };
        send({ ...chunk, choices: [opening], ...shown });
      }
    };
    const sendPart = (index: number, part: ChoicePart, generation: Generation | null) => {
      begin();
      send({ ...chunk, ...chatPart(request, { index, part, prompt, generation, served }) });
    };
    const generations = await served.generate(jobs, {
      client: AbortSignal.any([c.req.raw.signal, leaving.signal]),
      onProgress: (index, delta) => {
        const part = choices[index]!.next(delta);
        if (part !== null) sendPart(index, part, null);
      },
      onEnd: (index, generation) => sendPart(index, choices[index]!.rest(generation), generation),
    });
    if (!includeUsage) return;
    const { completion_tokens_details: _, ...usage } = wireUsage(countsOf(prompt, generations));
    send({ ...chunk, choices: [], usage, system_fingerprint: served.fingerprint });
  };
  return eventStream({ produce, held: served.unreadEvents, onCancel: () => leaving.abort(), onRefusal: (refusal) => served.report(refusal) });
}

interface PartOptions {
  readonly index: number;
  readonly part: ChoicePart;
  readonly prompt: Int32Array;
  /** Null until the generation has ended. */
  readonly generation: Generation | null;
  readonly served: ServedEngine;
}

function chatPart(request: ChatRequest, { index, part, prompt, generation, served }: PartOptions): object {
  const { logProbs, tokensAsIds, returnTokenIds, includeUsage, continuousUsage } = request;
  const options = { strings: served.strings, tokensAsIds, before: part.before, top: logProbs ?? 0 };
  const choice = {
    index,
    delta: { content: part.text },
    logprobs: logProbs === null ? null : chatLogProbs(part, options),
    finish_reason: generation?.finish ?? null,
    ...(generation === null ? {} : { stop_reason: generation.stopReason }),
    token_ids: returnTokenIds ? [...part.ids] : null,
  };
  const usage = { prompt_tokens: prompt.length, total_tokens: prompt.length + part.tokens, completion_tokens: part.tokens };
  return {
    choices: [choice],
    ...(continuousUsage ? { usage } : {}),
    ...(generation !== null && !includeUsage ? { system_fingerprint: served.fingerprint } : {}),
  };
}

function countsOf(prompt: Int32Array, generations: readonly Generation[]): TokenCounts {
  return {
    prompt: prompt.length,
    completion: generations.reduce((sum, { ids }) => sum + ids.length, 0),
    cached: generations.at(-1)!.cachedTokens,
    created: 0,
  };
}
