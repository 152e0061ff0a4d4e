/**
 * Finds out once, before a run, which features a policy server has; the result is printed and recorded. Kind `tokens` requires all of: prompts as ids, sampled ids
 * with log-probs, and the tokenizer over HTTP.
 */
import { createHash } from 'node:crypto';
import { ConfigError, PolicyError, VfError } from '../core/errors.ts';
import { firstNames } from '../core/first-names.ts';
import { Random } from '../core/random.ts';
import { VllmCompletionShape, VllmTokenizeShape } from '../schemas/vllm.ts';
import type { PolicyCapabilities } from './policy-client.ts';
import { probeImages } from './vllm-image-probe.ts';
import { isDown, VllmServer } from './vllm-server.ts';
import { dropsTools, templateTraits } from '../tokenizer/template-traits.ts';
import { VllmTokenizer } from './vllm-tokenizer.ts';

export interface ProbeOptions {
  readonly baseUrl: string;
  readonly apiKey?: string;
  /** Environment variable that holds the key, for errors. */
  readonly apiKeyVariable?: string;
  /** What the caller sets to name that variable, for errors: `-k`, `policy.api_key_var`. */
  readonly keySetting?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Null selects the server's only model. */
  readonly model: string | null;
  readonly signal: AbortSignal;
  /** Deadline of each request, in milliseconds: the first completion of a new server takes many seconds. @default 120000 */
  readonly timeoutMs?: number;
  /** @default 2 */
  readonly maxRetries?: number;
  /** Also finds out how images become tokens. @default false */
  readonly images?: boolean;
}

export interface PolicyProbe extends PolicyCapabilities {
  readonly model: string;
  /** Null if the server has no tokenizer route. */
  readonly hasChatTemplate: boolean | null;
  /** The chat template does not include tools in the prompt. @default false */
  readonly dropsTools?: boolean;
  /** The reason why only chat is possible; null for `tokens`. */
  readonly chatOnlyBecause: string | null;
  /** True if the model takes images over the chat API, if that was asked. */
  readonly chatsWithImages?: boolean;
}

/**
 * The text whose ids identify a tokenizer: scripts, digits, spaces, markup, code, emoji. A trainer that has the tokenizer gets the same hash with
 * `tokenizerHash(ids)`, with the ids encoded without special tokens.
 */
export const TOKENIZER_PROBE_TEXT = [
  'Who wrote "Hamlet"?  It\'s 1,234.56 km\n\n\tand 50 % of it.\r\n',
  '<think> a </think>\n<search>x y</search>\n\n<information>Doc 1(Title: "T") b</information>\n<answer> c </answer>',
  'def f(x):\n    return {"a": [x ** 2, -0.5]}  # ok; http://example.org/a_b?c=d&e=%20',
  'naïve façade Zürich Łódź Ελληνικά Русский العربية हिन्दी 中文 日本語 한국어 🙂👩‍🔬 ½ ² → ∑ — “q”',
].join('\n');

/** `sha256:` and the hex digest of the ids of TOKENIZER_PROBE_TEXT, written in decimal and joined by commas. */
export function tokenizerHash(ids: Iterable<number>): string {
  return `sha256:${createHash('sha256')
    .update([...ids].join(','))
    .digest('hex')}`;
}

/** Probes one server. Throws PolicyError if it cannot be reached or rejects the key, ConfigError if it does not serve the model. */
export async function probePolicy(options: ProbeOptions): Promise<PolicyProbe> {
  const { baseUrl, apiKey, apiKeyVariable, keySetting, headers, signal, timeoutMs = 120_000, maxRetries = 2 } = options;
  const server = new VllmServer({
    baseUrl,
    timeoutMs,
    maxRetries,
    random: Random.fromSeed(0),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(apiKeyVariable === undefined ? {} : { apiKeyVariable }),
    ...(keySetting === undefined ? {} : { keySetting }),
    ...(headers === undefined ? {} : { headers }),
  });
  try {
    const card = await chooseModel(server, options);
    const probe = await probeTokens(server, card, signal);
    if (options.images !== true || probe.kind === 'chat') return probe;
    const { rules, because, takesImages } = await probeImages(server, { model: probe.model, maxModelLen: probe.maxModelLen, signal });
    return { ...probe, images: rules !== null, imageTokens: rules, blindBecause: because, chatsWithImages: takesImages };
  } finally {
    await server.close();
  }
}

/** The properties that the replicas of one policy must share. `toolCalls` and the two after it come from the chat template. */
const COMPARED = [
  'model',
  'kind',
  'maxModelLen',
  'tokenizerHash',
  'logProbsMode',
  'hasChatTemplate',
  'toolCalls',
  'beginsWithBos',
  'closingTokenId',
  'imageTokens',
  'blindBecause',
] as const satisfies readonly (keyof PolicyProbe)[];

export interface ReplicasProbeOptions extends Omit<ProbeOptions, 'baseUrl'> {
  readonly baseUrls: readonly string[];
  /** Number of replicas that must answer. @default all */
  readonly quorum?: number;
  /** Called for each replica that does not answer although enough others do. */
  readonly onAbsent?: (baseUrl: string, why: VfError) => void;
}

/** Probes every replica. Throws as `probePolicy`, and ConfigError if they differ in model, tokenizer, window, log-probs or chat template. */
export async function probeReplicas({ baseUrls, quorum = baseUrls.length, onAbsent, ...options }: ReplicasProbeOptions): Promise<PolicyProbe> {
  const outcomes = await Promise.allSettled(baseUrls.map(async (baseUrl) => ({ baseUrl, probe: await probePolicy({ ...options, baseUrl }) })));
  const answered = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
  for (const [i, outcome] of outcomes.entries()) {
    if (outcome.status === 'fulfilled') continue;
    const why: unknown = outcome.reason;
    if (answered.length < quorum || !(why instanceof VfError) || !isDown(why)) throw why;
    onAbsent?.(baseUrls[i]!, why);
  }
  const [first] = answered;
  if (first === undefined) throw new ConfigError('baseUrls is empty. Pass at least one.');
  for (const field of COMPARED) {
    const ours = factText(first.probe[field]);
    const other = answered.find(({ probe }) => factText(probe[field]) !== ours);
    if (other === undefined) continue;
    throw new ConfigError(
      `The servers are not replicas of one policy: ${field} is ${ours} at ${first.baseUrl}, but ${factText(other.probe[field])} at ${other.baseUrl}`,
    );
  }
  return first.probe;
}

function factText(fact: PolicyProbe[(typeof COMPARED)[number]]): string {
  return typeof fact === 'object' && fact !== null ? JSON.stringify(fact) : String(fact);
}

interface ModelCard {
  readonly id: string;
  readonly maxModelLen: number | null;
}

async function chooseModel(server: VllmServer, { model, signal }: ProbeOptions): Promise<ModelCard> {
  const cards = await server.models(signal).catch((error: unknown) => {
    // Some APIs do not list their models; the given name is then used unchecked.
    if (!isRefusal(error)) throw error;
    if (model !== null) return [];
    throw new ConfigError(
      `${server.url} lists no models (${error.message.replace(/\.$/, '')}). Name one as the model (-m; policy.model in a request).`,
      { cause: error },
    );
  });
  const bases = cards.filter((card) => card.parent === null);
  // Base models only: a training run loads hundreds of adapters.
  const names = namesOf(bases.length > 0 ? bases : cards) || 'none';
  if (model !== null) {
    const card = cards.find(({ id }) => id === model);
    if (card !== undefined) return card;
    // Only vLLM reports max_model_len and lists every model.
    if (!cards.some((other) => other.maxModelLen !== null)) return { id: model, maxModelLen: null };
    throw new ConfigError(
      `${server.url} does not serve ${model}. It serves ${names}. Name one of these as the model (-m; --server-model in vf-train; policy.model in a request).`,
    );
  }
  const [only, ...others] = bases;
  if (only !== undefined && others.length === 0) return only;
  throw new ConfigError(`${server.url} serves ${names}. Name one as the model (-m; --server-model in vf-train; policy.model in a request).`);
}

/** A server may list any number of them, of any length. */
function namesOf(cards: readonly ModelCard[]): string {
  return firstNames(
    cards.map(({ id }) => id.slice(0, 200)),
    20,
  );
}

async function probeTokens(server: VllmServer, card: ModelCard, signal: AbortSignal): Promise<PolicyProbe> {
  const { id: model } = card;
  const chat = { kind: 'chat', model, maxModelLen: card.maxModelLen, tokenizerHash: null, logProbsMode: 'none', hasChatTemplate: null } as const;
  let ids: Int32Array;
  // An adapter's card does not contain the window, but /tokenize returns it.
  let { maxModelLen } = card;
  try {
    const fields = { model, prompt: TOKENIZER_PROBE_TEXT, add_special_tokens: false, return_token_strs: true };
    const answer = await server.post('/tokenize', fields, VllmTokenizeShape, signal);
    if (answer.token_strs?.length !== answer.tokens.length)
      return { ...chat, chatOnlyBecause: '/tokenize does not return the strings of its tokens' };
    ids = Int32Array.from(answer.tokens);
    maxModelLen ??= answer.max_model_len ?? null;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    // Its models were listed, so the URL is right.
    const isMissing = error.status === 404 || error.status === 405;
    return { ...chat, chatOnlyBecause: isMissing ? 'it has no /tokenize, which vLLM serves' : `/tokenize: ${error.message}` };
  }
  const logProbsMode = await probeCompletion(server, model, ids, signal).catch((error: unknown) => {
    if (isRefusal(error)) return error;
    throw error;
  });
  if (typeof logProbsMode !== 'string') return { ...chat, chatOnlyBecause: `/v1/completions: ${logProbsMode.message}` };
  const tokenizer = new VllmTokenizer().at({ server, model, signal });
  const traits = await templateTraits(tokenizer);
  const isUnreadable = traits.chatTemplate === 'model' && traits.toolCalls === null;
  return {
    kind: 'tokens',
    model,
    maxModelLen,
    tokenizerHash: tokenizerHash(ids),
    logProbsMode,
    ...traits,
    ...(isUnreadable && (await dropsTools(tokenizer)) ? { dropsTools: true } : {}),
    hasChatTemplate: traits.chatTemplate === 'model',
    chatOnlyBecause: null,
  };
}

/**
 * Forces a token: its log-prob is 0 if the server computes it after its filters (`processed`), the model's own if before (`raw`). Throws PolicyError
 * if ids or log-probs are missing.
 */
async function probeCompletion(server: VllmServer, model: string, ids: Int32Array, signal: AbortSignal): Promise<'raw' | 'processed' | 'unknown'> {
  const prompt = [...ids.subarray(0, 8)];
  const [forced = 0] = ids.subarray(-1);
  const fields = { model, prompt, max_tokens: 1, temperature: 1, logprobs: 0, return_token_ids: true, allowed_token_ids: [forced] };
  const [choice] = (await server.post('/v1/completions', fields, VllmCompletionShape, signal)).choices;
  if (choice?.token_ids.length !== 1 || choice.logprobs.token_logprobs.length !== 1) {
    throw new PolicyError('The server did not return the sampled id and its log-prob');
  }
  if (choice.token_ids[0] !== forced) return 'unknown';
  return choice.logprobs.token_logprobs[0] === 0 ? 'processed' : 'raw';
}

/** A definitive refusal (a missing route, an unknown field, a response of another shape): neither transient nor an authentication failure. */
function isRefusal(error: unknown): error is VfError {
  return error instanceof PolicyError && error.name === 'PolicyError' && !error.retryable && error.status !== 401 && error.status !== 403;
}
