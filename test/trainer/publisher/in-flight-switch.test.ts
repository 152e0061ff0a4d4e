import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../../src/clients/policy-versions.ts';
import { type Fault, loraProxy } from '../../loopback/lora-proxy.ts';
import { loraServer } from '../../loopback/lora-server.ts';
import { sendJson } from '../../transport/loopback.ts';
import { PublisherRun } from './publisher-run.ts';

const LOAD = '/v1/load_lora_adapter';
const signal = new AbortController().signal;
const server = await loraServer();
const run = new PublisherRun(server);
afterAll(async () => {
  run[Symbol.dispose]();
  await server[Symbol.asyncDispose]();
});

/** Publishes versions that change the model, each in another way, through a proxy that notes what is asked of the server while it is paused. */
async function opened(fault: Fault = () => false) {
  const paused: string[] = [];
  const proxy = await loraProxy(server.url, async (request, response) => {
    const { path, body } = request;
    if (server.weights.isPaused) paused.push(path === LOAD ? `load ${JSON.parse(body).lora_name}` : path === '/update_weight_version' ? body : path);
    return await fault(request, response);
  });
  const versions = new PolicyVersions({ version: 0, model: server.baseModel }, { isInFlight: true });
  const publisher = run.publisher({ versions, baseUrls: [proxy.url], maxRetries: 0 });
  const publish = async (version: number) => {
    const manifest = run.adapter({ b: 0.05, seed: 10 + version });
    const result = await publisher.publish({ version, manifest, probe: await run.probeOf(manifest) }, signal);
    return { manifest, name: `${publisher.runName}-v00000${version}`, result };
  };
  const dispose = async () => {
    await publisher[Symbol.asyncDispose]();
    await proxy[Symbol.asyncDispose]();
  };
  return { ...publisher, publish, paused, url: proxy.url, [Symbol.asyncDispose]: dispose };
}

const inPlace = (body: string) => (JSON.parse(body) as { load_inplace?: boolean }).load_inplace === true;
/** Answers 500 to loads in place, of which `count` pass before. */
function failsAfter(count: number): Fault {
  let seen = 0;
  return ({ path, body }, response) => {
    if (path !== LOAD || !inPlace(body) || seen++ < count) return false;
    sendJson(response, 500, { error: { message: 'no room' } });
    return true;
  };
}
const weightsIn = (directory: string) => readFileSync(join(directory, 'adapter_model.safetensors'));

describe('InFlightSwitch', () => {
  it('gives the new weights to every adapter with a generation, while the server is paused, and to no other', async () => {
    await using run0 = await opened();
    const first = await run0.publish(0);
    const [generation, other] = [run0.versions.acquire(), run0.versions.acquire()];
    const second = await run0.publish(1);
    other.release();
    run0.versions.acquire().release();
    run0.paused.length = 0;
    const third = await run0.publish(2);
    expect(third.result).toMatchObject({ ok: true, ref: { version: 2, model: third.name } });
    expect(run0.paused).toEqual(['{"new_version":"switching"}', `load ${first.name}`, JSON.stringify({ new_version: third.name }), '/resume']);
    expect(server.weights).toEqual({ label: third.name, isPaused: false });
    const [fingerprint] = [first, third].map(({ name }) => server.weightsOf(name));
    expect(fingerprint).toBe(server.weightsOf(third.name));
    expect(server.weightsOf(second.name)).not.toBe(fingerprint);
    // The server reads the file again where it has dropped the adapter.
    expect(weightsIn(first.manifest.directory)).toEqual(weightsIn(third.manifest.directory));
    expect(existsSync(join(first.manifest.directory, 'adapter_model.safetensors.before'))).toBe(false);
    generation.release();
  });

  it('lets generations wait until the server goes on, and begin with the new version', async () => {
    const waiting: Promise<number>[] = [];
    await using run0 = await opened(({ path }) => {
      const begun = async () => (await run0.versions.acquireInFlight(signal)).ref.version;
      if (path === '/update_weight_version' && waiting.length === 0) waiting.push(begun());
      return false;
    });
    await run0.publish(1);
    expect(await Promise.all(waiting)).toEqual([1]);
  });

  it('gives every adapter its old weights back where one cannot be loaded, and the server goes on with the old label', async () => {
    let isFull = false;
    await using run0 = await opened(({ path, body }, response) => {
      if (path !== LOAD || !inPlace(body) || !isFull || !body.includes('-v000001')) return false;
      isFull = false;
      sendJson(response, 500, { error: { message: 'no room' } });
      return true;
    });
    const first = await run0.publish(0);
    run0.versions.acquire();
    const second = await run0.publish(1);
    run0.versions.acquire();
    const before = server.weightsOf(second.name);
    const bytes = weightsIn(second.manifest.directory);
    isFull = true;
    const failed = await run0.publish(2);
    expect(failed.result).toMatchObject({
      ok: false,
      kept: { version: 1 },
      reason: { message: expect.stringMatching(/no room.*Version 1 .*continues/) },
    });
    expect(server.weights).toEqual({ label: second.name, isPaused: false });
    expect([first, second].map(({ name }) => server.weightsOf(name))).toEqual([before, before]);
    expect([first, second].map(({ manifest }) => weightsIn(manifest.directory))).toEqual([bytes, bytes]);
    expect(await run.modelsOf(run0.runName)).toEqual([first.name, second.name]);
    expect((await run0.publish(3)).result.ok).toBe(true);
  });

  it('ends the run where old weights cannot be given back either, under a label of no version', async () => {
    await using run0 = await opened(failsAfter(0));
    await run0.publish(0);
    run0.versions.acquire();
    const { result } = await run0.publish(1);
    expect(result).toMatchObject({
      ok: false,
      reason: { endsRun: true, message: expect.stringMatching(/weights of two versions: .*undoing failed: .*Restart/) },
    });
    expect(server.weights).toEqual({ label: 'switching', isPaused: false });
    expect(run0.versions.versionNamed('switching')).toBeNull();
  });

  it('ends the run where the server does not go on', async () => {
    await using run0 = await opened(({ path }, response) => {
      if (path !== '/resume') return false;
      sendJson(response, 500, { error: 'stuck' });
      return true;
    });
    const { result } = await run0.publish(1);
    expect(result).toMatchObject({
      ok: false,
      reason: { endsRun: true, message: expect.stringMatching(/is paused and did not go on: .*POST \/resume/) },
    });
  });

  it('wakes a server that a killed process left paused, and labels one that was restarted', async () => {
    await using run0 = await opened();
    await run.post('/pause?mode=keep', {});
    await run0.publisher.clear(signal);
    expect(server.weights.isPaused).toBe(false);
    await run0.publish(1);
    const { model } = run0.versions.current();
    await run.post('/v1/unload_lora_adapter', { lora_name: model });
    await run.post('/update_weight_version', { new_version: 'default' });
    expect(await run0.publisher.catchUp(run0.url, signal)).toEqual({ ok: true, isLoaded: true });
    expect(server.weights.label).toBe(model);
  });
});
