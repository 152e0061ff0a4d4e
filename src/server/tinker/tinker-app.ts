/**
 * The Tinker API: each training and sampling request answers an id, and the result is retrieved by it. Passes arrive in protobuf or JSON, and a caller who accepts
 * protobuf gets the results of passes and samples in it. Checks key, host and content type, and bounds what callers make it hold.
 */
import { hash } from 'node:crypto';
import { Hono } from 'hono';
import { CancelledError } from '../../core/errors.ts';
import { forwardBackwardSchema, forwardSchema } from '../../schemas/tinker/passes.ts';
import { sampleRequestSchema } from '../../schemas/tinker/samples.ts';
import * as service from '../../schemas/tinker/service.ts';
import { passOf } from '../../tinker/wire/json-pass.ts';
import { decodePass } from '../../tinker/wire/protobuf-pass.ts';
import { keyCheck } from '../access.ts';
import { BodyBudget, type BodyReader, DEFAULT_BODY_TIMEOUT_MS } from '../bounded-body.ts';
import { clientOf } from '../client-of.ts';
import { hostCheck, WRONG_HOST } from '../door.ts';
import { answerFuture } from './answer-future.ts';
import { Archives } from './archives.ts';
import { API, jsonRoutes, type PostRoute } from './json-routes.ts';
import { listingRoutes } from './listing-routes.ts';
import { refusalOf, TinkerRefusal } from './tinker-refusal.ts';
import type { TinkerService } from './tinker-service.ts';

export interface TinkerAppOptions {
  /** The value of `X-API-Key`, required on every route except `healthz` and links to archives; null allows everyone. */
  readonly apiKey: string | null;
  /** The address that the app listens on. A loopback server answers only requests for a name of this machine. */
  readonly host: string;
  /** @default 64 MiB */
  readonly maxBodyBytes?: number;
  readonly onFailure: (error: unknown) => void;
}

const ARCHIVES = `${API}/archives/`;
const MAX_BODY_BYTES = 64 * 2 ** 20;
const BODIES_HELD = 4;
const PROTOBUF = 'application/x-protobuf';

export function tinkerApp(tinker: TinkerService, options: TinkerAppOptions): Hono {
  const app = new Hono();
  const archives = new Archives();
  guard(app, options);
  const { maxBodyBytes = MAX_BODY_BYTES } = options;
  const budget = new BodyBudget({
    maxBodyBytes,
    maxTotalBytes: BODIES_HELD * maxBodyBytes,
    held: tinker.held,
    bodyTimeoutMs: DEFAULT_BODY_TIMEOUT_MS,
  });
  const post = jsonRoutes(app, budget);
  statusRoutes(app, tinker, post);
  passRoutes(app, tinker, budget, post);
  post('create_session', service.createSessionSchema, () => ({ type: 'create_session', session_id: tinker.sessions.create() }));
  post('session_heartbeat', service.sessionSchema, ({ session_id: id }) => {
    tinker.sessions.beat(id);
    return { type: 'session_heartbeat' };
  });
  post('sessions/:id/finish', service.anySchema, (_, { c }) => {
    tinker.sessions.finish(c.req.param('id')!);
    return {};
  });
  post('create_model', service.createModelSchema, (body, { content }) => tinker.createModel(body, content));
  post('unload_model', service.modelSchema, ({ model_id: id }) => tinker.unloadModel(id));
  post('get_info', service.modelSchema, async ({ model_id: id }) => infoOf(tinker, id));
  post('optim_step', service.optimStepSchema, (body, { content }) => tinker.optimStep(body, content));
  post('save_weights', service.saveWeightsSchema, (body, { content }) => tinker.saveWeights(body, content));
  post('save_weights_for_sampler', service.saveSamplerSchema, (body, { content }) => tinker.saveForSampler(body, content));
  post('save_weights_external', service.saveExternalSchema, (body, { content }) => tinker.saveExternal(body, content));
  post('load_weights', service.loadWeightsSchema, (body, { content }) => tinker.loadWeights(body, content));
  post('create_sampling_session', service.createSamplingSessionSchema, (body) => tinker.createSamplingSession(body));
  post('asample', sampleRequestSchema, (body, { content }) => tinker.sample(body, content));
  post('retrieve_future', service.retrieveFutureSchema, ({ request_id: id }, { c, signal }) => answerFuture(c, tinker.futures, id, signal));
  listingRoutes(app, tinker, archives, post);
  otherRoutes(app, options);
  return app;
}

function guard(app: Hono, { apiKey, host }: TinkerAppOptions): void {
  const hasKey = keyCheck(apiKey, new Set([`${API}/healthz`]));
  const namesThisServer = hostCheck(host);
  app.use(async (c, next) => {
    if (!namesThisServer(c.req.raw)) return c.json({ detail: WRONG_HOST }, 403);
    const key = c.req.header('x-api-key');
    const isOpen = c.req.path.startsWith(ARCHIVES) && c.req.method === 'GET';
    if (!isOpen && !hasKey(c.req.path, key === undefined ? c.req.header('authorization') : `Bearer ${key}`))
      return c.json({ detail: 'The header x-api-key does not hold the key of this server; set TINKER_API_KEY' }, 401);
    return next();
  });
}

function statusRoutes(app: Hono, tinker: TinkerService, post: PostRoute): void {
  const { baseNames, compute } = tinker.options;
  app.get(`${API}/healthz`, (c) => c.json({ status: 'ok' }));
  app.get(`${API}/get_server_capabilities`, (c) =>
    c.json({
      supported_models: baseNames.map((name) => ({ model_name: name, max_context_length: compute.maxModelLen, trainable: true, sampleable: true })),
    }),
  );
  post('client/config', service.anySchema, () => ({ pjwt_auth_enabled: false }));
  post('client/dynamic_config', service.anySchema, () => ({}));
  post('telemetry', service.anySchema, () => ({ status: 'accepted' }));
}

/** `forward_backward` in both dialects, and the JSON dialect's `forward`; in protobuf a flag says it. */
function passRoutes(app: Hono, tinker: TinkerService, budget: BodyBudget, post: PostRoute): void {
  app.post(`${API}/forward_backward`, async (c, next) => {
    const type = c.req.header('content-type')?.split(';', 1)[0]!.trim().toLowerCase();
    if (type !== PROTOBUF) return next();
    if (c.req.header('content-encoding') !== undefined) throw new TinkerRefusal(415, 'This server reads bodies without content-encoding');
    const { raw } = c.req;
    const source = {
      client: clientOf(raw),
      announced: Number(raw.headers.get('content-length') ?? 0),
      open: () => (raw.body?.getReader() as BodyReader | undefined) ?? null,
    };
    return budget.withBytes(source, async (body) => {
      if (!body.ok) throw new TinkerRefusal(body.status, body.detail, { cause: body.cause });
      return c.json(await tinker.pass(decodePass(body.bytes), { digest: hash('sha256', body.bytes), bytes: 2 * body.bytes.length }));
    });
  });
  post('forward_backward', forwardBackwardSchema, ({ model_id: modelId, seq_id: seqId, forward_backward_input: input }, { content }) =>
    tinker.pass({ ...passOf(input), modelId, seqId: seqId ?? 0, isForwardOnly: false }, content),
  );
  post('forward', forwardSchema, ({ model_id: modelId, seq_id: seqId, forward_input: input }, { content }) =>
    tinker.pass({ ...passOf(input), modelId, seqId: seqId ?? 0, isForwardOnly: true }, content),
  );
}

async function infoOf(tinker: TinkerService, modelId: string): Promise<object> {
  const { run } = await tinker.models.get(modelId);
  const { architecture, tokenizer } = tinker.options.compute;
  return {
    type: 'get_info',
    model_id: modelId,
    is_lora: true,
    lora_rank: run.lora.rank,
    model_name: run.base_model,
    model_data: { arch: architecture, model_name: run.base_model, tokenizer_id: tokenizer },
  };
}

function otherRoutes(app: Hono, { onFailure }: TinkerAppOptions): void {
  app.notFound((c) => c.json({ detail: 'This server has no such route' }, 404));
  app.onError((error, c) => {
    const refusal = refusalOf(error);
    if (c.req.raw.signal.aborted && refusal.cause instanceof CancelledError) return c.body(null, 400);
    if (refusal.status === 500) onFailure(refusal.cause ?? refusal);
    // The rest of an unread body would be parsed as the next request.
    if (refusal.status === 408 || refusal.status === 413) c.header('connection', 'close');
    if (refusal.retryable) c.header('retry-after', '1');
    return c.json({ detail: refusal.message }, refusal.status);
  });
}
