/**
 * vLLM's routes for the embedded engine, so that clients, publishers and trainers run the same code as with a real vLLM. Answers, statuses and error messages are
 * those recorded from vLLM 0.32.0. It differs if vLLM accepts input that gives wrong samples (see refused-fields.ts, adapter-routes.ts), in its limits (413, 503),
 * and in requiring the key on every route except /health, /ping, /version and /metrics.
 */
import { type Context, Hono } from 'hono';
import { CancelledError } from '../../core/errors.ts';
import type { TokenEngine } from '../../engine/engine-types.ts';
import { parseLoadAdapterRequest, parseUnloadAdapterRequest } from '../../schemas/policy-server/adapter-request.ts';
import { CHAT_FIELDS, parseChatRequest } from '../../schemas/policy-server/chat-request.ts';
import { COMPLETION_FIELDS, parseCompletionRequest } from '../../schemas/policy-server/completion-request.ts';
import type { Parsed } from '../../schemas/policy-server/request-problem.ts';
import { parseDetokenizeRequest, parseTokenizeRequest } from '../../schemas/policy-server/tokenize-request.ts';
import { keyCheck } from '../access.ts';
import { BodyBudget, DEFAULT_BODY_TIMEOUT_MS } from '../bounded-body.ts';
import { hostCheck, WRONG_HOST } from '../door.ts';
import type { AdapterPlaces } from './adapter-directory.ts';
import { type AdapterNotice, AdapterRoutes } from './adapter-routes.ts';
import { answerChat } from './chat-route.ts';
import { answerCompletion } from './completion-route.ts';
import { PolicyRefusal, refusalOf } from './policy-refusal.ts';
import { withRequest } from './request-body.ts';
import { PLAIN_SAMPLING, type SamplingDefaults } from './sampling-defaults.ts';
import { type PolicyLimits, ServedEngine } from './served-engine.ts';
import { answerDetokenize, answerTokenize } from './tokenizer-routes.ts';

export interface PolicyAppOptions {
  readonly engine: TokenEngine;
  /** Name of the base model for clients. */
  readonly servedName: string;
  /** Null allows everyone. */
  readonly apiKey: string | null;
  /** The address that the app listens on. A loopback server accepts only requests whose `host` header names it. */
  readonly host: string;
  /** @default 'raw' */
  readonly logProbsMode?: 'raw' | 'processed';
  /** Defaults for missing sampling fields. @default plain sampling at temperature 1 */
  readonly samplingDefaults?: SamplingDefaults;
  readonly adapterPlaces: AdapterPlaces;
  /** @default none */
  readonly adapterNotice?: AdapterNotice | undefined;
  readonly limits?: Partial<PolicyLimits>;
  /** @default 'embedded' */
  readonly version?: string;
  /** Called for every failure of the server itself. @default does nothing */
  readonly onFailure?: (error: unknown) => void;
}

export const DEFAULT_LIMITS: PolicyLimits = {
  maxBodyBytes: 16 * 2 ** 20,
  bodyTimeoutMs: DEFAULT_BODY_TIMEOUT_MS,
  maxChoices: 1024,
  maxLogProbs: 2 ** 20,
  maxTextLength: 2 ** 19,
  maxLoraRank: 512,
  maxAdapters: 64,
};

const OPEN_PATHS: ReadonlySet<string> = new Set(['/health', '/ping', '/version', '/metrics']);

const SCHEMAS = { CompletionRequest: named(COMPLETION_FIELDS), ChatCompletionRequest: named(CHAT_FIELDS) } as const;

function named(fields: readonly string[]) {
  return { type: 'object', properties: Object.fromEntries(fields.map((name) => [name, {}])) };
}

/** Number of bodies of maximum size that may be held at a time. */
const BODIES_HELD = 16;

export function policyApp(options: PolicyAppOptions): Hono {
  const {
    engine,
    servedName,
    logProbsMode = 'raw',
    samplingDefaults: defaults = PLAIN_SAMPLING,
    version = 'embedded',
    onFailure = () => {},
  } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const served = new ServedEngine({ engine, servedName, logProbsMode, defaults, limits, version, onFailure });
  const budget = new BodyBudget({ ...limits, maxTotalBytes: BODIES_HELD * limits.maxBodyBytes });
  const app = new Hono();
  guard(app, options);
  const post = <T>(path: string, parse: (body: unknown) => Parsed<T>, use: (c: Context, request: T) => Response | Promise<Response>) => {
    app.post(path, (c) => {
      // The signal must be read before anything is awaited; later the server no longer reports that a client disconnected.
      void c.req.raw.signal;
      return withRequest(c.req.raw, budget, { parse, use: async (request) => use(c, request) });
    });
  };
  const adapters = new AdapterRoutes(served, options.adapterPlaces, options.adapterNotice);
  post('/v1/completions', parseCompletionRequest, (c, request) => answerCompletion(c, request, served));
  post('/v1/chat/completions', parseChatRequest, (c, request) => answerChat(c, request, served));
  post('/tokenize', parseTokenizeRequest, (c, request) => answerTokenize(c, request, served));
  post('/detokenize', parseDetokenizeRequest, (c, request) => answerDetokenize(c, request, served));
  post('/v1/load_lora_adapter', parseLoadAdapterRequest, (c, request) => adapters.load(c, request));
  post('/v1/unload_lora_adapter', parseUnloadAdapterRequest, (c, name) => adapters.unload(c, name));
  app.get('/v1/models', (c) => adapters.models(c));
  statusRoutes(app, served);
  otherRoutes(app, served);
  return app;
}

function guard(app: Hono, { apiKey, host }: PolicyAppOptions): void {
  const hasKey = keyCheck(apiKey, OPEN_PATHS);
  const namesThisServer = hostCheck(host);
  app.use(async (c, next) => {
    if (!namesThisServer(c.req.raw)) {
      return c.json(new PolicyRefusal(403, WRONG_HOST).body, 403);
    }
    if (!hasKey(c.req.path, c.req.header('authorization'))) return c.json({ error: 'Unauthorized' }, 401, { 'www-authenticate': 'Bearer' });
    return next();
  });
}

function statusRoutes(app: Hono, served: ServedEngine): void {
  const { engine, options } = served;
  const { servedName, version, limits, logProbsMode } = options;
  const health = (c: Context) => c.body(null, served.lost === null ? 200 : 503);
  app.get('/health', health);
  app.get('/ping', health);
  app.post('/ping', health);
  // As in vLLM, a client finds out here which fields a route reads: others are ignored.
  app.get('/openapi.json', (c) =>
    c.json({ openapi: '3.1.0', info: { title: 'vf-serve policy', version }, paths: {}, components: { schemas: SCHEMAS } }),
  );
  app.get('/version', (c) => c.json({ version }));
  app.get('/load', (c) => c.json({ server_load: engine.stats().requestsRunning + engine.stats().requestsWaiting }));
  app.get('/metrics', (c) => {
    const text = served.metrics.text(engine.stats(), { model: servedName, maxAdapters: limits.maxAdapters });
    return c.body(text, 200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' });
  });
  app.get('/server_info', (c) =>
    c.json({
      vllm_config: {
        model_config: { model: engine.config.path, max_model_len: engine.maxModelLen, dtype: 'float32', logprobs_mode: `${logProbsMode}_logprobs` },
        lora_config: { max_lora_rank: limits.maxLoraRank, max_loras: limits.maxAdapters, max_cpu_loras: limits.maxAdapters },
      },
      engine: engine.description,
    }),
  );
  app.post('/reset_prefix_cache', (c) => {
    served.resetPrefixCache();
    return c.json({ success: true });
  });
}

/** Answers for wrong methods, wrong paths and errors. */
function otherRoutes(app: Hono, served: ServedEngine): void {
  const methods = new Map<string, Set<string>>();
  for (const { path, method } of app.routes) {
    if (method === 'ALL') continue;
    methods.set(path, (methods.get(path) ?? new Set()).add(method));
  }
  for (const [path, allowed] of methods) app.all(path, (c) => c.json({ detail: 'Method Not Allowed' }, 405, { allow: [...allowed].join(', ') }));
  app.notFound((c) => c.json({ detail: 'Not Found' }, 404));
  app.onError((error, c) => {
    const refusal = refusalOf(error);
    // The client has disconnected and reads no answer.
    if (c.req.raw.signal.aborted && refusal.cause instanceof CancelledError) return c.body(null, 400);
    served.report(refusal);
    // A lost engine does not come back by itself: clients would wait for it as for a rate limit.
    if (refusal.status === 503 && refusal.retryable) c.header('retry-after', '1');
    // The rest of an unread body would be parsed as the next request.
    if (refusal.status === 408 || refusal.status === 413) c.header('connection', 'close');
    return c.json(refusal.body, refusal.status);
  });
}
