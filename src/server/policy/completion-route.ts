/** `POST /v1/completions`. */
import type { Context } from 'hono';
import { CancelledError } from '../../core/errors.ts';
import type { Generation, GenerationDelta } from '../../engine/engine-types.ts';
import type { CompletionRequest } from '../../schemas/policy-server/completion-request.ts';
import { type ChoicePart, ChoiceStream } from './choice-stream.ts';
import { completionChoice, endOfText, type TokenCounts, type WireLogProbs, wireLogProbs, wireUsage } from './completion-answer.ts';
import { eventStream } from './event-stream.ts';
import { checkChoices, jobsFor } from './generation-jobs.ts';
import { PolicyRefusal } from './policy-refusal.ts';
import type { GenerationJob, ServedEngine, ServedModel } from './served-engine.ts';

interface Plan {
  readonly request: CompletionRequest;
  readonly model: ServedModel;
  readonly jobs: readonly GenerationJob[];
  /** Text of each prompt if it is echoed. */
  readonly promptTexts: readonly string[];
  /** Fields at the start of every part of the answer. */
  readonly head: { readonly id: string; readonly object: 'text_completion'; readonly created: number; readonly model: string };
}

export async function answerCompletion(c: Context, request: CompletionRequest, served: ServedEngine): Promise<Response> {
  const model = served.model(request.model);
  if (request.stream && request.echo && request.logProbs !== null) {
    throw new PolicyRefusal(400, 'echo with logprobs is not available when `stream=True`.', { param: 'echo' });
  }
  checkChoices(served, request.prompts.length, request.n);
  const prompts = await promptIds(request, { served, client: c.req.raw.signal });
  const echoed = request.echo ? request.logProbs : null;
  const jobs = jobsFor(served, {
    model,
    fields: request,
    prompts,
    maxTokens: Math.max(1, request.maxTokens),
    logProbs: request.logProbs,
    promptLogProbs: request.promptLogProbs ?? echoed,
  });
  const promptTexts = request.echo ? request.prompts.map((prompt) => (typeof prompt === 'string' ? prompt : served.decode(prompt))) : [];
  const id = `cmpl-${served.requestId(c.req.header('x-request-id') ?? request.requestId)}`;
  const head = { id, object: 'text_completion', created: Math.floor(Date.now() / 1000), model: model.name } as const;
  const plan = { request, model, jobs, promptTexts, head };
  return request.stream ? streamed(c, plan, served) : whole(c, plan, served);
}

/** Tokenises one prompt at a time, so that other requests get their turn. */
async function promptIds(
  { prompts, addSpecialTokens }: CompletionRequest,
  { served, client }: { readonly served: ServedEngine; readonly client: AbortSignal },
): Promise<Int32Array[]> {
  const ids: Int32Array[] = [];
  for (const prompt of prompts) {
    if (typeof prompt === 'string' && ids.length > 0) await new Promise((resolve) => setImmediate(resolve));
    if (client.aborted) throw new CancelledError('The client disconnected');
    ids.push(typeof prompt === 'string' ? served.encode(prompt, { addSpecialTokens }) : prompt);
  }
  return ids;
}

async function whole(c: Context, { request, jobs, promptTexts, head }: Plan, served: ServedEngine): Promise<Response> {
  const generations = await served.generate(jobs, { client: c.req.raw.signal });
  const choices = generations.map((generation, index) => {
    const { prompt } = jobs[index]!;
    return completionChoice(request, {
      index,
      prompt,
      promptText: promptTexts[Math.floor(index / request.n)] ?? '',
      generation,
      strings: served.strings,
    });
  });
  return c.json({
    ...head,
    choices,
    service_tier: null,
    system_fingerprint: served.fingerprint,
    usage: wireUsage(countsOf(request, jobs, generations)),
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  });
}

function streamed(c: Context, { request, jobs, promptTexts, head }: Plan, served: ServedEngine): Promise<Response> {
  const { n, maxTokens, echo, includeUsage, logProbs, tokensAsIds } = request;
  const leaving = new AbortController();
  const choices = jobs.map(() => new ChoiceStream());
  /** Text offset of each choice's next token, as counted by vLLM. */
  const offsets = jobs.map(() => 0);
  const produce = async (send: (data: object) => void) => {
    const sendPart = (index: number, part: ChoicePart, generation: Generation | null) => {
      const promptText = echo && part.isFirst ? promptTexts[Math.floor(index / n)]! : '';
      const options = { strings: served.strings, tokensAsIds, before: part.before, textOffset: offsets[index]! };
      const judged = logProbs === null ? null : wireLogProbs(part, options);
      if (judged !== null) offsets[index] = endOfText(judged, options.textOffset);
      send(completionPart({ request, index, part, judged, promptText, prompt: jobs[index]!.prompt, generation, head, served }));
    };
    const onProgress = (index: number, delta: GenerationDelta) => {
      const part = maxTokens === 0 ? null : choices[index]!.next(delta);
      if (part !== null) sendPart(index, part, null);
    };
    const client = AbortSignal.any([c.req.raw.signal, leaving.signal]);
    const generations = await served.generate(jobs, {
      client,
      onProgress,
      onEnd: (index, generation) => sendPart(index, choices[index]!.rest(maxTokens === 0 ? { ...generation, ...NOTHING } : generation), generation),
    });
    if (!includeUsage) return;
    const { completion_tokens_details: _, ...usage } = wireUsage(countsOf(request, jobs, generations));
    send({ ...head, choices: [], usage, system_fingerprint: served.fingerprint });
  };
  return eventStream({ produce, held: served.unreadEvents, onCancel: () => leaving.abort(), onRefusal: (refusal) => served.report(refusal) });
}

const NOTHING = { ids: new Int32Array(0), text: '', logProbs: new Float32Array(0), alternatives: null };

interface PartOptions extends Pick<Plan, 'request' | 'head'> {
  readonly index: number;
  readonly part: ChoicePart;
  readonly judged: WireLogProbs | null;
  readonly promptText: string;
  readonly prompt: Int32Array;
  /** Null until the generation has ended. */
  readonly generation: Generation | null;
  readonly served: ServedEngine;
}

function completionPart({ request, head, index, part, judged, promptText, prompt, generation, served }: PartOptions): object {
  const { returnTokenIds, includeUsage, continuousUsage } = request;
  const counts = { prompt: prompt.length, completion: part.tokens };
  return {
    ...head,
    choices: [
      {
        index,
        text: (returnTokenIds ? '' : promptText) + part.text,
        logprobs: judged,
        finish_reason: generation?.finish ?? null,
        stop_reason: generation?.stopReason ?? null,
        prompt_token_ids: returnTokenIds && part.isFirst ? [...prompt] : null,
        token_ids: returnTokenIds ? [...part.ids] : null,
      },
    ],
    ...(continuousUsage
      ? { usage: { prompt_tokens: counts.prompt, total_tokens: counts.prompt + counts.completion, completion_tokens: counts.completion } }
      : {}),
    ...(generation !== null && !includeUsage ? { system_fingerprint: served.fingerprint } : {}),
  };
}

/** Counts each prompt once, however many choices it has. */
function countsOf({ n, maxTokens }: CompletionRequest, jobs: readonly GenerationJob[], generations: readonly Generation[]): TokenCounts {
  return {
    prompt: jobs.reduce((sum, { prompt }, i) => (i % n === 0 ? sum + prompt.length : sum), 0),
    completion: maxTokens === 0 ? 0 : generations.reduce((sum, { ids }) => sum + ids.length, 0),
    cached: generations.at(-1)!.cachedTokens,
  };
}
