import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { CancelledError, ConfigError } from '../../../src/core/errors.ts';
import type { LoraServerOptions } from '../../../src/trainer/publisher/lora-server.ts';
import { VersionNames } from '../../../src/trainer/publisher/served-policy.ts';
import type { PublishResult } from '../../../src/trainer/weight-publisher.ts';
import { weightPublisherContract } from '../../contracts/weight-publisher.ts';
import { type Fault, loraProxy } from '../../loopback/lora-proxy.ts';
import { loraServer } from '../../loopback/lora-server.ts';
import { loopback, readText, refusingUrl, sendJson } from '../../transport/loopback.ts';
import { PublisherRun } from './publisher-run.ts';

weightPublisherContract('loopback server', () => loraServer());

const LOAD = '/v1/load_lora_adapter';
const UNLOAD = '/v1/unload_lora_adapter';
const signal = new AbortController().signal;
const server = await loraServer();
const run = new PublisherRun(server);
afterAll(async () => {
  run[Symbol.dispose]();
  await server[Symbol.asyncDispose]();
});

/** Publishes an adapter that does nothing as version 1. */
async function publish(options: Partial<LoraServerOptions>, manifest = run.adapter({})): Promise<PublishResult> {
  await using opened = run.publisher(options);
  return await opened.publish({ version: 1, manifest, probe: await run.probe(server.baseModel) }, signal);
}

function messageOf(result: PublishResult): string {
  return result.ok ? 'published' : result.reason.message;
}

const answer =
  (path: string, status: number, body: unknown): Fault =>
  (request, response) => {
    if (request.path !== path) return false;
    sendJson(response, status, body);
    return true;
  };

describe('LoraServerPublisher', () => {
  it('refuses options that no server could serve', () => {
    expect(() => run.publisher({ baseUrls: [] })).toThrow(ConfigError);
    expect(() => run.publisher({ logProbsMode: 'none' })).toThrow(/log-probs/);
    expect(() => new VersionNames('a/b')).toThrow(/run name may have up to 100 letters/);
  });

  it('names the flags that are missing on a server without the routes', async () => {
    for (const body of [{ detail: 'Not Found' }, { error: { message: 'Not Found' } }]) {
      await using proxy = await loraProxy(server.url, answer(LOAD, 404, body));
      const message = messageOf(await publish({ baseUrls: [proxy.url] }));
      expect(message).toMatch(/VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment and --enable-lora --max-lora-rank N --max-loras M/);
      expect(proxy.requests.filter((request) => request === `POST ${LOAD}`)).toHaveLength(1);
    }
  });

  it('a 404 that is not from vLLM does not end the run: a proxy answers like that while the server restarts', async () => {
    for (const [body, endsRun] of [
      [{ detail: 'Not Found' }, true],
      ['404 page not found', false],
    ] as const) {
      await using proxy = await loraProxy(server.url, answer(LOAD, 404, body));
      expect(await publish({ baseUrls: [proxy.url] })).toMatchObject({ ok: false, reason: { endsRun } });
    }
  });

  it('detects a server that runs with LoRA off before it sends anything', async () => {
    await using proxy = await loraProxy(server.url, answer('/server_info?config_format=json', 200, { vllm_config: { lora_config: null } }));
    expect(messageOf(await publish({ baseUrls: [proxy.url] }))).toMatch(
      /Rank 4 exceeds the server's limit of 0\. Start vLLM with .*--enable-lora --max-lora-rank 4 or more/,
    );
    expect(proxy.requests).not.toContain(`POST ${LOAD}`);
  });

  it('asks again for a directory that a shared disk shows late', async () => {
    const manifest = run.adapter({});
    let isLate = true;
    const late: Fault = async ({ path, pass }, response) => {
      if (path !== LOAD || !isLate) return false;
      isLate = false;
      renameSync(manifest.directory, `${manifest.directory}-hidden`);
      const { status, text } = await pass();
      renameSync(`${manifest.directory}-hidden`, manifest.directory);
      response.writeHead(status, { 'content-type': 'application/json' }).end(text);
      return true;
    };
    await using proxy = await loraProxy(server.url, late);
    expect(messageOf(await publish({ baseUrls: [proxy.url] }, manifest))).toBe('published');
    expect(proxy.requests.filter((request) => request === `POST ${LOAD}`)).toHaveLength(2);
  });

  it('says where the server looked when it never finds the directory', async () => {
    const message = messageOf(await publish({ serverAdaptersDirectory: '/mnt/adapters/', maxRetries: 0 }));
    expect(message).toMatch(/server does not find \/mnt\/adapters\/a\d+: .*No adapter found.*server_adapter_dir/);
  });

  it('refuses a directory that a server in a container cannot see, before anything is sent', async () => {
    await using proxy = await loraProxy(server.url);
    const options = { baseUrls: [proxy.url], adaptersDirectory: join(run.folder, 'other'), serverAdaptersDirectory: '/mnt' };
    expect(messageOf(await publish(options))).toMatch(/outside the run's adapters folder, which the server sees as \/mnt/);
    expect(proxy.requests).toEqual([]);
  });

  it('sends the key, and never shows it', async () => {
    await using locked = await loopback(async (request, response) => {
      await readText(request);
      sendJson(response, 401, { error: `you sent ${request.headers.authorization}` });
    });
    const message = messageOf(await publish({ baseUrls: [locked.url], apiKey: 'secret-key-1' }));
    expect(message).toMatch(/rejected the API key: .* 401 .*you sent .*\*\*\*.*policy\.api_key_var/);
    expect(message).not.toContain('secret-key-1');
  });

  it('says that a server may not read the folder, not that it rejects the key, where that is why it refuses', async () => {
    await using closed = await loopback(async (request, response) => {
      await readText(request);
      const message = 'Loading lora x failed: the directory must be under /data (--allow-adapters-under)';
      sendJson(response, 403, { error: { message, type: 'PermissionDeniedError', param: null, code: 403 } });
    });
    const result = await publish({ baseUrls: [closed.url] });
    expect(messageOf(result)).toMatch(/may not load adapters from .*must be under \/data.*--allow-adapters-under\), or move the run with -o/);
    expect(messageOf(result)).not.toMatch(/API key/);
  });

  it('reports a server that is gone, as a failure that may pass', async () => {
    const result = await publish({ baseUrls: [await refusingUrl()], maxRetries: 0 });
    expect(messageOf(result)).toMatch(/ECONNREFUSED.*check that the server runs/);
    expect(result).toMatchObject({ ok: false, reason: { retryable: true } });
  });

  it('waits until the deadline for a load that never ends, and no longer', async () => {
    await using silent = await loraProxy(server.url, ({ path }) => (path === LOAD ? new Promise(() => {}) : false));
    expect(messageOf(await publish({ baseUrls: [silent.url], loadTimeoutMs: 200 }))).toMatch(/did not finish loading .* within 200 ms/);
  });

  it('refuses a card of another directory or another base', async () => {
    const card =
      (change: object): Fault =>
      async ({ path, pass }, response) => {
        if (path !== '/v1/models') return false;
        const { data } = JSON.parse((await pass()).text) as { data: { parent: string | null }[] };
        sendJson(response, 200, { data: data.map((model) => (model.parent === null ? model : { ...model, ...change })) });
        return true;
      };
    await using moved = await loraProxy(server.url, card({ root: '/elsewhere' }));
    expect(messageOf(await publish({ baseUrls: [moved.url] }))).toMatch(/loaded .* from \/elsewhere instead of/);
    await using other = await loraProxy(server.url, card({ parent: 'llama' }));
    expect(messageOf(await publish({ baseUrls: [other.url], baseModel: 'qwen' }))).toMatch(/is an adapter of llama instead of qwen/);
  });

  it('says so when a poisoned server cannot be healed', async () => {
    await using proxy = await loraProxy(server.url, answer('/reset_prefix_cache', 404, { detail: 'Not Found' }));
    const message = messageOf(await publish({ baseUrls: [proxy.url] }, run.adapter({ b: 3e38 })));
    expect(message).toMatch(/no route to reset its prefix cache, and the base model still fails: restart that server/);
    await run.post('/reset_prefix_cache', {});
  });

  it('refuses a version below the current one, and a probe that proves nothing', async () => {
    await using opened = run.publisher();
    const [manifest, probe] = [run.adapter({}), await run.probe(server.baseModel)];
    await opened.publish({ version: 2, manifest, probe }, signal);
    expect(messageOf(await opened.publish({ version: 1, manifest, probe }, signal))).toMatch(/version must be at least the current one, 2, got 1/);
    const empty = { ...probe, targets: new Int32Array(), logProbs: new Float32Array() };
    expect(messageOf(await opened.publish({ version: 3, manifest, probe: empty }, signal))).toMatch(/cannot be verified/);
    expect(opened.versions.current().version).toBe(2);
  });

  it('unloads a version that was overtaken while it was being loaded', async () => {
    const { promise: overtaken, resolve } = Promise.withResolvers<void>();
    const delay: Fault = async ({ path, body }) => {
      if (path === LOAD && body.includes('v000001')) await overtaken;
      return false;
    };
    await using proxy = await loraProxy(server.url, delay);
    await using opened = run.publisher({ baseUrls: [proxy.url] });
    const probe = await run.probe(server.baseModel);
    const late = opened.publish({ version: 1, manifest: run.adapter({}), probe }, signal);
    expect(await opened.publish({ version: 2, manifest: run.adapter({}), probe }, signal)).toMatchObject({ ok: true });
    resolve();
    expect(messageOf(await late)).toMatch(/newer version was published while version 1 was loading\. Version 2/);
    expect(opened.versions.current().version).toBe(2);
    expect(await run.modelsOf(opened.runName)).toEqual([`${opened.runName}-v000002`]);
  });

  it('deletes nothing of an earlier session while a server may still read it', async () => {
    const manifest = run.adapter({});
    await using earlier = run.publisher();
    expect(await earlier.publish({ version: 1, manifest, probe: await run.probe(server.baseModel) }, signal)).toMatchObject({ ok: true });
    await using proxy = await loraProxy(server.url, answer(UNLOAD, 500, { error: { message: 'busy' } }));
    await using later = run.publisher({ baseUrls: [proxy.url], maxRetries: 0 });
    await later.publisher.clear(signal);
    expect([later.publisher.cleanUpFailures, existsSync(manifest.directory)]).toEqual([1, true]);
  });

  it('counts an unload that failed and repeats it at the next retire, keeping the directory until then', async () => {
    let isRefusing = true;
    const refuse: Fault = (request, response) => isRefusing && answer(UNLOAD, 500, { error: { message: 'busy' } })(request, response);
    await using proxy = await loraProxy(server.url, refuse);
    await using opened = run.publisher({ baseUrls: [proxy.url], maxRetries: 0 });
    const [first, second] = [run.adapter({}), run.adapter({})];
    const probe = await run.probe(server.baseModel);
    await opened.publish({ version: 1, manifest: first, probe }, signal);
    await opened.publish({ version: 2, manifest: second, probe }, signal);
    await opened.publisher.retire(2, signal);
    expect([opened.publisher.cleanUpFailures, existsSync(first.directory)]).toEqual([1, true]);
    isRefusing = false;
    await opened.publisher.retire(2, signal);
    expect([opened.publisher.cleanUpFailures, existsSync(first.directory), existsSync(second.directory)]).toEqual([1, false, true]);
    expect(await run.modelsOf(opened.runName)).toEqual([`${opened.runName}-v000002`]);
  });

  it('treats an adapter that the server has already lost as retired', async () => {
    await using opened = run.publisher();
    const manifest = run.adapter({});
    const probe = await run.probe(server.baseModel);
    await opened.publish({ version: 1, manifest, probe }, signal);
    await opened.publish({ version: 2, manifest: run.adapter({}), probe }, signal);
    await run.post(UNLOAD, { lora_name: `${opened.runName}-v000001` });
    await opened.publisher.retire(2, signal);
    expect([opened.publisher.cleanUpFailures, existsSync(manifest.directory)]).toEqual([0, false]);
  });

  it('keeps a directory that a later version still uses, and deletes that of a version that failed', async () => {
    await using opened = run.publisher();
    const [shared, failed] = [run.adapter({}), run.adapter({})];
    const probe = await run.probe(server.baseModel);
    const wrong = { ...probe, logProbs: probe.logProbs.map((value) => value - 1) };
    await opened.publish({ version: 1, manifest: shared, probe }, signal);
    expect(messageOf(await opened.publish({ version: 2, manifest: failed, probe: wrong }, signal))).toMatch(/differ from the trainer's by/);
    await opened.publish({ version: 3, manifest: shared, probe }, signal);
    await opened.publisher.retire(3, signal);
    expect([existsSync(shared.directory), existsSync(failed.directory)]).toEqual([true, false]);
  });

  it('stops waiting for leases when cancelled', async () => {
    await using opened = run.publisher();
    const probe = await run.probe(server.baseModel);
    const manifest = run.adapter({});
    await opened.publish({ version: 1, manifest, probe }, signal);
    const lease = opened.versions.acquire();
    await opened.publish({ version: 2, manifest: run.adapter({}), probe }, signal);
    const stopping = new AbortController();
    const retired = opened.publisher.retire(2, stopping.signal);
    stopping.abort();
    await expect(retired).rejects.toThrow(CancelledError);
    expect(existsSync(manifest.directory)).toBe(true);
    lease.release();
  });
});
