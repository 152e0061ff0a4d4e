/**
 * vLLM's routes over the embedded engine, so that clients, publishers and trainers are the code that runs against a real one. Answers, statuses and error texts are
 * those of vLLM 0.32.0 as recorded; it differs where vLLM is lenient at the price of wrong samples (see refused-fields.ts, adapter-routes.ts), in its limits (413, 503),
 * and in asking for the key on every route but /health, /ping, /version and /metrics.
 */
import { type Context, Hono } from 'hono';
import { CancelledError } from '../../core/errors.ts';
import type { Engine } from '../../engine/engine-types.ts';
import { parseLoadAdapterRequest, parseUnloadAdapterRequest } from '../../schemas/policy-server/adapter-request.ts';
import { parseChatRequest } from '../../schemas/policy-server/chat-request.ts';
import { parseCompletionRequest } from '../../schemas/policy-server/completion-request.ts';
import type { Parsed } from '../../schemas/policy-server/request-problem.ts';
import { parseDetokenizeRequest, parseTokenizeRequest } from '../../schemas/policy-server/tokenize-request.ts';
import { BodyBudget, DEFAULT_BODY_TIMEOUT_MS } from '../bounded-body.ts';
import { hostCheck, WRONG_HOST } from '../door.ts';
import { keyCheck } from './access.ts';
import type { AdapterPlaces } from './adapter-directory.ts';
import { AdapterRoutes } from './adapter-routes.ts';
import { answerChat } from './chat-route.ts';
import { answerCompletion } from './completion-route.ts';
import { PolicyRefusal, refusalOf } from './policy-refusal.ts';
import { withRequest } from './request-body.ts';
import { PLAIN_SAMPLING, type SamplingDefaults } from './sampling-defaults.ts';
import { type PolicyLimits, ServedEngine } from './served-engine.ts';
import { answerDetokenize, answerTokenize } from './tokenizer-routes.ts';

export interface PolicyAppOptions {
  readonly engine: Engine;
  /** What clients call the base. */
  readonly servedName: string;
  /** Null lets everyone in. */
  readonly apiKey: string | null;
  /** The address that the app is served at: only there may a loopback server be asked for. */
  readonly host: string;
  /** @default 'raw' */
  readonly logProbsMode?: 'raw' | 'processed';
  /** Where a request leaves sampling fields out. @default plain sampling at temperature 1 */
  readonly samplingDefaults?: SamplingDefaults;
  readonly adapterPlaces: AdapterPlaces;
  readonly limits?: Partial<PolicyLimits>;
  /** @default 'embedded' */
  readonly version?: string;
  /** Hears of every failure that is the server's own. @default nobody */
  readonly onFailure?: (error: unknown) => void;
}

export const DEFAULT_LIMITS: PolicyLimits = {
  maxBodyBytes: 16 * 2 ** 20,
  bodyTimeoutMs: DEFAULT_BODY_TIMEOUT_MS,
  maxChoices: 1024,
  maxTextLength: 2 ** 19,
  maxLoraRank: 512,
  maxAdapters: 64,
};

/** Bodies that may be held at a time, in the size of the largest. */
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
      // Read before anything is awaited: later on the server no longer tells of a client that left.
      void c.req.raw.signal;
      return withRequest(c.req.raw, budget, { parse, use: async (request) => use(c, request) });
    });
  };
  const adapters = new AdapterRoutes(served, options.adapterPlaces);
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
  const mayAsk = keyCheck(apiKey);
  const isMeant = hostCheck(host);
  app.use(async (c, next) => {
    if (!isMeant(c.req.raw)) {
      return c.json(new PolicyRefusal(403, WRONG_HOST).body, 403);
    }
    if (!mayAsk(c.req.path, c.req.header('authorization'))) return c.json({ error: 'Unauthorized' }, 401, { 'www-authenticate': 'Bearer' });
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

/** What is left: the wrong method, the wrong path, the wrong turn. */
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
    // Nobody reads the answer to a client that has left.
    if (c.req.raw.signal.aborted && refusal.cause instanceof CancelledError) return c.body(null, 400);
    served.report(refusal);
    if (refusal.status === 503) c.header('retry-after', '1');
    // Whatever is left of an unread body would be taken for the next request.
    if (refusal.status === 408 || refusal.status === 413) c.header('connection', 'close');
    return c.json(refusal.body, refusal.status);
  });
}
