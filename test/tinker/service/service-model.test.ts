import { describe, expect, it } from 'vitest';
import { PassDialect, type WireName } from '../../../src/tinker/service/pass-dialect.ts';
import { ServiceConnection, type ServiceConnectionOptions } from '../../../src/tinker/service/service-connection.ts';
import type { ServiceModel } from '../../../src/tinker/service/service-model.ts';
import { ServiceSession } from '../../../src/tinker/service/service-session.ts';
import type { TinkerError } from '../../../src/tinker/service/tinker-error.ts';
import { decodePass, encodeOutput } from '../../../src/tinker/wire/protobuf-pass.ts';
import { textDatum } from '../../../src/tinker/wire/training-pass.ts';
import { floatRow, tokenRow } from '../../../src/tinker/wire/wire-tensor.ts';
import { loopback, sendJson } from '../../transport/loopback.ts';
import { recorded } from '../wire/recorded-exchanges.ts';
import { type Asked, type Reply, replayOf, scriptedService } from './scripted-service.ts';

const { signal } = new AbortController();
const ADAM = { learningRate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 };
const DATUM = textDatum(Int32Array.of(1, 2), { target_tokens: tokenRow(Int32Array.of(2, 3)), weights: floatRow(Float32Array.of(0, 1)) });
const PASS = { lossFn: 'cross_entropy', lossConfig: {}, data: [DATUM], isForwardOnly: false };
const OUTPUT = encodeOutput({ data: [{ logprobs: floatRow(Float32Array.of(-1, -2)) }], metrics: {} });

interface Opened extends AsyncDisposable {
  readonly model: ServiceModel;
  readonly session: ServiceSession;
}

async function opened(
  baseUrl: string,
  wire: WireName,
  options: Partial<ServiceConnectionOptions> & { readonly beatMs?: number } = {},
): Promise<Opened> {
  const { beatMs, ...rest } = options;
  const connection = await ServiceConnection.open({ baseUrl, apiKey: 'tml-secret-key', ...rest }, signal);
  const session = await ServiceSession.open({ connection, dialect: new PassDialect(wire), signal, ...(beatMs === undefined ? {} : { beatMs }) });
  const layers = { attention: true, mlp: true, unembedding: false };
  const model = await session.createModel({ baseModel: 'base', rank: 4, seed: 1, layers }, signal);
  return {
    model,
    session,
    async [Symbol.asyncDispose]() {
      await session[Symbol.asyncDispose]();
      await connection[Symbol.asyncDispose]();
    },
  };
}

/** Accepts every request of the model under a future of its own, whose result `result` gives. */
function accepting(result: (id: string, asked: Asked) => Reply): (asked: Asked) => Reply | undefined {
  let futures = 0;
  return (asked) => {
    if (['forward_backward', 'forward', 'optim_step', 'save_weights'].includes(asked.route)) return { request_id: `f${++futures}` };
    const id = asked.json?.['request_id'];
    return asked.route === 'retrieve_future' && id !== 'created' ? result(String(id), asked) : undefined;
  };
}

const numberOf = ({ json, bytes }: Asked) => json?.['seq_id'] ?? decodePass(new Uint8Array(bytes)).seqId;

describe('ServiceModel', () => {
  it('goes from protobuf to JSON at a server that answers 500 to it, and reads what a recorded SkyRL gave', async () => {
    const replay = replayOf(recorded('sdk-0.24.1-skyrl-0.3.0'));
    await using server = await scriptedService((asked) =>
      asked.headers['content-type'] === 'application/x-protobuf' ? [500, { detail: 'Internal Server Error' }] : replay(asked),
    );
    await using client = await opened(server.url, 'auto');
    const { model } = client;
    expect(model.alpha).toBe(32);
    const passed = await model.pass(PASS, signal);
    const stepped = await model.step(ADAM, signal);
    const { data } = await passed.result();
    expect(data[0]!['logprobs']!.values.every((value) => Number.isFinite(value) && value < 0)).toBe(true);
    expect((await stepped.result())['skyrl.ai/grad_norm']).toBeGreaterThan(0);
    await (await model.pass(PASS, signal)).result();
    const sent = server.asked.filter(({ route }) => route === 'forward_backward' || route === 'optim_step');
    // The refused request was not taken, so the next one has its number.
    expect(sent.map(numberOf)).toEqual([1, 1, 2, 3]);
    expect(server.to('forward_backward').map(({ headers }) => headers['content-type'])).toEqual([
      'application/x-protobuf',
      'application/json',
      'application/json',
    ]);
  });

  it('stays with protobuf where it is taken, and compresses it if the service asks for that', async () => {
    await using server = await scriptedService((asked) =>
      asked.route === 'client/config' ? { proto_compress_fwdbwd: true } : accepting(() => OUTPUT)(asked),
    );
    await using client = await opened(server.url, 'auto');
    const { data } = await (await client.model.pass({ ...PASS, isForwardOnly: true }, signal)).result();
    expect([...data[0]!['logprobs']!.values]).toEqual([-1, -2]);
    const [{ headers, bytes }] = server.to('forward_backward') as [Asked];
    expect(headers['content-encoding']).toBe('zstd');
    const { zstdDecompressSync } = await import('node:zlib');
    expect(decodePass(new Uint8Array(zstdDecompressSync(bytes)))).toMatchObject({ modelId: 'm1', seqId: 1, isForwardOnly: true });
  });

  it('submits the next request before the result of the one before it is there', async () => {
    const order: string[] = [];
    const accept = accepting((id) => {
      order.push(id);
      return id === 'f1' ? OUTPUT : { metrics: {} };
    });
    await using server = await scriptedService((asked) => {
      if (asked.route === 'forward_backward' || asked.route === 'optim_step') order.push(asked.route);
      return accept(asked);
    });
    await using client = await opened(server.url, 'protobuf');
    const passed = await client.model.pass(PASS, signal);
    const stepped = await client.model.step(ADAM, signal);
    await Promise.all([passed.result(), stepped.result()]);
    expect(order.slice(0, 2)).toEqual(['forward_backward', 'optim_step']);
  });

  it('asks again while a result is not ready, and submits an expired request again under its number', async () => {
    const answers: Reply[] = [
      { type: 'try_again', queue_state: 'paused_capacity' },
      [408, { detail: 'timeout' }],
      { status: 'complete_metadata', response_payload_size: 5 },
      [410, { detail: 'expired' }],
      { metrics: { 'grad_norm:mean': 2 } },
    ];
    await using server = await scriptedService(accepting(() => answers.shift()!));
    const notices: string[] = [];
    await using client = await opened(server.url, 'protobuf', { onNotice: (line) => notices.push(line) });
    expect(await (await client.model.step(ADAM, signal)).result()).toEqual({ 'grad_norm:mean': 2 });
    expect(server.to('optim_step').map(numberOf)).toEqual([1, 1]);
    expect(notices).toEqual(['The training service is at its capacity; the run waits']);
  });

  it('repeats a request after a server error with its number and its idempotency key', async () => {
    let failures = 2;
    const accept = accepting(() => ({ metrics: {} }));
    await using server = await scriptedService((asked) =>
      asked.route === 'optim_step' && failures-- > 0 ? [502, { detail: 'bad gateway' }] : accept(asked),
    );
    await using client = await opened(server.url, 'protobuf');
    await (await client.model.step(ADAM, signal)).result();
    const sent = server.to('optim_step');
    expect(sent.map(numberOf)).toEqual([1, 1, 1]);
    expect(new Set(sent.map(({ headers }) => headers['x-idempotency-key'])).size).toBe(1);
  });

  it('says once that the service does not answer, and again at its next outage', async () => {
    let requests = 0;
    await using server = await loopback((_request, response) => {
      // The third is answered, and so is the last.
      if (++requests % 3 === 0) sendJson(response, 200, {});
      else response.destroy();
    });
    const notices: string[] = [];
    const options = { baseUrl: server.url, apiKey: 'tml-secret-key', patienceMs: 60_000, onNotice: (line: string) => notices.push(line) };
    await using connection = await ServiceConnection.open(options, signal);
    const text = `The training service at ${server.url} does not answer; requests are repeated for up to 60 s`;
    expect([requests, notices]).toEqual([3, [text]]);
    await connection.request({ route: 'healthz', signal });
    expect(notices).toHaveLength(2);
  });

  it('waits with a notice while the account is paused for billing', async () => {
    let pauses = 3;
    const accept = accepting(() => ({ metrics: {} }));
    await using server = await scriptedService((asked) =>
      asked.route === 'optim_step' && pauses-- > 0 ? [402, { detail: 'billing' }] : accept(asked),
    );
    const notices: string[] = [];
    await using client = await opened(server.url, 'protobuf', { billingPauseMs: 1, onNotice: (line) => notices.push(line) });
    await (await client.model.step(ADAM, signal)).result();
    expect(notices).toHaveLength(1);
    expect(notices[0]).toContain('paused the account for billing');
  });

  it('gives a refused request its number back, and says what the service said', async () => {
    let isFirst = true;
    const accept = accepting(() => ({ metrics: {} }));
    await using server = await scriptedService((asked) => {
      if (asked.route !== 'optim_step' || !isFirst) return accept(asked);
      isFirst = false;
      return [422, { detail: 'learning_rate too high' }];
    });
    await using client = await opened(server.url, 'protobuf');
    await expect(client.model.step(ADAM, signal)).rejects.toMatchObject({ status: 422, isGone: false, message: expect.stringContaining('too high') });
    await (await client.model.step(ADAM, signal)).result();
    expect(server.to('optim_step').map(numberOf)).toEqual([1, 1]);
  });

  it('is gone where the service does not know it any more, and after a request that never arrived', async () => {
    let status = 404;
    await using server = await scriptedService((asked) => (asked.route === 'optim_step' ? [status, { detail: 'Model not found' }] : undefined));
    await using client = await opened(server.url, 'protobuf', { patienceMs: 0 });
    await expect(client.model.step(ADAM, signal)).rejects.toMatchObject({ isGone: true });
    status = 500;
    await using second = await opened(server.url, 'protobuf', { patienceMs: 0 });
    await expect(second.model.step(ADAM, signal)).rejects.toMatchObject({ isGone: true });
    await expect(second.model.save({ name: 'a', signal })).rejects.toMatchObject({ isGone: true });
    expect(server.to('save_weights')).toEqual([]);
  });
});

describe('ServiceSession', () => {
  it('is gone once the service does not know it, and asks for nothing more', async () => {
    await using server = await scriptedService((asked) => (asked.route === 'session_heartbeat' ? [410, { detail: 'finished' }] : undefined));
    await using client = await opened(server.url, 'protobuf', { beatMs: 1 });
    await expect
      .poll(() => {
        try {
          return client.session.assertAlive();
        } catch (error) {
          return (error as TinkerError).isGone;
        }
      })
      .toBe(true);
    await expect(client.model.step(ADAM, signal)).rejects.toThrow('The session s1');
    expect(server.to('optim_step')).toEqual([]);
    expect(server.to('session_heartbeat')).toHaveLength(1);
  });

  it('unloads its models and finishes when it is closed', async () => {
    await using server = await scriptedService(() => undefined);
    const client = await opened(server.url, 'protobuf');
    await client[Symbol.asyncDispose]();
    expect(server.asked.slice(-2).map(({ route }) => route)).toEqual(['unload_model', 'sessions/s1/finish']);
  });

  it('opens one sampling session per version, and numbers its requests', async () => {
    await using server = await scriptedService((asked) => {
      if (asked.route === 'asample') return { request_id: 'sampled' };
      return asked.json?.['request_id'] === 'sampled' ? { sequences: [{ stop_reason: 'stop', tokens: [5], logprobs: [-0.5] }] } : undefined;
    });
    await using client = await opened(server.url, 'protobuf');
    const asked = { prompt: Int32Array.of(1), maxTokens: 4, temperature: 1, signal };
    const samples = await Promise.all(['a', 'a', 'b'].map((path) => client.session.sample({ ...asked, weights: { path: `tinker://${path}` } })));
    expect(samples.map(({ sequences }) => [...sequences[0]!.tokens])).toEqual([[5], [5], [5]]);
    expect(server.to('create_sampling_session').map(({ json }) => json?.['model_path'])).toEqual(['tinker://a', 'tinker://b']);
    expect(server.to('asample').map(numberOf)).toEqual(expect.arrayContaining([0, 1]));
  });
});

describe('ServiceConnection', () => {
  it('sends the token that the service gives for its key, and fetches another one when it is refused', async () => {
    let tokens = 0;
    const accept = accepting(() => ({ metrics: {} }));
    await using server = await scriptedService((asked) => {
      if (asked.route === 'client/config') return { pjwt_auth_enabled: true };
      if (asked.route === 'auth/token') return { jwt: `token-${++tokens}` };
      const isStale = asked.route === 'optim_step' && asked.headers['x-api-key'] === 'token-1';
      return isStale ? [401, { detail: 'expired' }, { 'www-authenticate': 'Bearer error="invalid_token"' }] : accept(asked);
    });
    await using client = await opened(server.url, 'protobuf');
    await (await client.model.step(ADAM, signal)).result();
    expect(server.to('optim_step').map(({ headers }) => headers['x-api-key'])).toEqual(['token-1', 'token-2']);
    expect(server.to('auth/token').map(({ headers }) => headers['x-api-key'])).toEqual(['tml-secret-key', 'tml-secret-key']);
  });

  it('replaces a token at half its life', async () => {
    let tokens = 0;
    await using server = await scriptedService((asked) => {
      if (asked.route === 'client/config') return { pjwt_auth_enabled: true };
      // The first one has ended already.
      const claims = Buffer.from(JSON.stringify({ exp: Date.now() / 1000 + (tokens === 0 ? -1 : 3600) })).toString('base64url');
      return asked.route === 'auth/token' ? { jwt: `${++tokens}.${claims}.x` } : undefined;
    });
    await using client = await opened(server.url, 'protobuf');
    expect(client.model.id).toBe('m1');
    expect(server.to('create_session')[0]!.headers['x-api-key']).toMatch(/^1\./);
    expect(server.to('create_model')[0]!.headers['x-api-key']).toMatch(/^2\./);
    expect(tokens).toBe(2);
  });

  it('says that a key is refused, without the key', async () => {
    await using server = await scriptedService(({ headers }) => [401, { detail: `bad key ${String(headers['x-api-key'])}` }]);
    const error = await opened(server.url, 'protobuf').then(
      () => null,
      (thrown: Error) => thrown,
    );
    expect(error).toMatchObject({ name: 'TinkerError', status: 401, endsRun: true });
    expect(error!.message).toContain('refuses the API key');
    expect(`${error!.message}${error!.stack}`).not.toContain('secret-key');
  });

  it('names a server that speaks something else', async () => {
    await using server = await scriptedService(({ route }) => (route === 'client/config' ? [200, ['a list']] : undefined));
    await expect(opened(server.url, 'protobuf')).rejects.toThrow('something else than its contract says');
  });
});
