/**
 * The server of `vf-serve gateway`: on one port the sessions, which a trainer opens and ends with its key, and below them the addresses at which agents ask the policy. A refusal
 * has the form of the environment server's, because one client talks to both.
 */
import { Hono } from 'hono';
import { ConfigError } from '../../core/errors.ts';
import { RewardRequestSchema, SessionRequestSchema } from '../../schemas/gateway/session-requests.ts';
import { keyCheck } from '../access.ts';
import { hostCheck, WRONG_HOST } from '../door.ts';
import { EnvironmentRefusal, refusalOf } from '../environment/environment-refusal.ts';
import { JsonRequests } from '../environment/json-requests.ts';
import { HeldBytes } from '../held-bytes.ts';
import { appListener, isLoopback } from '../listen.ts';
import { Gateway } from './gateway.ts';
import { type GatewayListenerOptions, pathOf } from './gateway-listener.ts';
import { RolloutSessions, type RolloutSessionsOptions } from './rollout-sessions.ts';

export interface SessionServerOptions extends RolloutSessionsOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** The address under which agents reach it, without a path. @default the one that it listens on */
  readonly publicUrl?: string;
  /** Bearer token of the routes below /sessions; null allows everyone, on loopback only. Agents have keys of their own. */
  readonly apiKey: string | null;
  readonly version: string;
  /** Called for every failure of the server itself. */
  readonly onFailure: (error: unknown) => void;
}

export interface SessionServer {
  /** `http://host:port` */
  readonly url: string;
  /** Ends every session. */
  close(): Promise<void>;
}

/** With `/v1` they are told where sessions are. */
const SESSION_PATHS = /^(?:\/health|(?:\/v1)?\/sessions(?:\/.*)?)$/s;
const MAX_BODY_BYTES = 4 * 2 ** 20;

/** Throws ConfigError if the address cannot be used, or is open to the network without an API key. */
export async function startSessionServer(options: SessionServerOptions): Promise<SessionServer> {
  const { host, port, publicUrl, apiKey, onFailure } = options;
  if (!isLoopback(host) && apiKey === null)
    throw new ConfigError(`${host} is open to the network, and no API key is required. Add --api-key-var NAME, or listen on 127.0.0.1.`);
  // Requests come once the gateway listens, and the sessions need its address.
  const opening = Promise.withResolvers<RolloutSessions>();
  const answer = appListener(sessionRoutes(opening.promise, options));
  const first: GatewayListenerOptions['first'] = (request, response) =>
    SESSION_PATHS.test(pathOf(request)) ? (answer(request, response), true) : false;
  const gateway = await Gateway.open({ host, port, first, onFailure, ...(publicUrl === undefined ? {} : { publicUrl }) });
  const sessions = new RolloutSessions(gateway, options);
  opening.resolve(sessions);
  return {
    url: gateway.url,
    async close() {
      await sessions.close();
      await gateway.close();
    },
  };
}

function sessionRoutes(opening: Promise<RolloutSessions>, { host, apiKey, version, onFailure }: SessionServerOptions): Hono {
  const requests = new JsonRequests({ maxBodyBytes: MAX_BODY_BYTES, bodiesHeld: 8, held: new HeldBytes(), describedBy: 'docs/gateway.md' });
  const app = new Hono();
  const namesThisServer = hostCheck(host);
  const hasKey = keyCheck(apiKey, new Set(['/health']));
  for (const path of ['/health', '/sessions', '/sessions/*', '/v1/*'])
    app.use(path, async (c, next) => {
      if (!namesThisServer(c.req.raw)) throw new EnvironmentRefusal(403, WRONG_HOST);
      if (!hasKey(c.req.path, c.req.header('authorization')))
        throw new EnvironmentRefusal(401, 'The API key is missing or wrong. Send the header authorization: Bearer KEY.');
      return next();
    });
  app.get('/health', (c) => c.json({ status: 'healthy', version }));
  app.post('/sessions', (c) =>
    requests.read(c, { schema: SessionRequestSchema, use: async (request) => c.json(await (await opening).open(request), 201) }),
  );
  app.get('/sessions/:id', async (c) => c.json((await opening).view(c.req.param('id'))));
  app.post('/sessions/:id/end', async (c) => c.json(await (await opening).end(c.req.param('id'))));
  app.post('/sessions/:id/reward', (c) =>
    requests.read(c, { schema: RewardRequestSchema, use: async ({ reward }) => c.json(await (await opening).reward(c.req.param('id'), reward)) }),
  );
  app.delete('/sessions/:id', async (c) => {
    await (await opening).delete(c.req.param('id'));
    return c.json({ session_id: c.req.param('id'), deleted: true });
  });
  app.all('/v1/*', () => {
    throw new EnvironmentRefusal(404, 'Sessions are at /sessions, without /v1: give the address of the server as it printed it.');
  });
  for (const path of ['/sessions', '/sessions/*'])
    app.all(path, () => {
      throw new EnvironmentRefusal(
        404,
        'This path does not exist. The paths are POST /sessions, GET and DELETE /sessions/ID, POST /sessions/ID/end and POST /sessions/ID/reward.',
      );
    });
  app.onError((error, c) => {
    const refusal = refusalOf(error);
    if (refusal.status === 500) onFailure(refusal.cause ?? refusal);
    if (refusal.status === 503) c.header('retry-after', '1');
    if (refusal.status === 401) c.header('www-authenticate', 'Bearer');
    // The rest of an unread body would be parsed as the next request.
    if (refusal.status === 408 || refusal.status === 413) c.header('connection', 'close');
    return c.json(refusal.body, refusal.status);
  });
  return app;
}
