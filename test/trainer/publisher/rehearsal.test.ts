import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { LoraServerOptions } from '../../../src/trainer/publisher/lora-server.ts';
import { PolicyVersions } from '../../../src/clients/policy-versions.ts';
import { type ConfigError, PublishError } from '../../../src/core/errors.ts';
import { type PublishRehearsal, rehearsePublish } from '../../../src/trainer/publisher/rehearse-publish.ts';
import { loraServer } from '../../loopback/lora-server.ts';
import { nanoServer } from '../../server/policy/nano-server.ts';
import { refusingUrl } from '../../transport/loopback.ts';
import { someConfig } from '../some-config.ts';
import { writeAdapter } from './adapter-files.ts';
import { PublisherRun, type TestedServer } from './publisher-run.ts';

const signal = new AbortController().signal;
const server = await loraServer();
const run = new PublisherRun(server);
afterAll(async () => {
  run[Symbol.dispose]();
  await server[Symbol.asyncDispose]();
});

/** Rehearses an adapter that does nothing, of which the servers have `count` at once. */
async function rehearse(options: Partial<LoraServerOptions> = {}, { count = 1, at = run, base = server.baseModel } = {}) {
  await using opened = at.publisher({ baseModel: base, ...options });
  const name = `${opened.runName}-check`;
  const others = Array.from({ length: count - 1 }, (_, i) => `${name}-${i + 2}`);
  const request = { version: 0, name, manifest: at.adapter({}), probe: await at.probe(base) };
  const result = await opened.publisher.rehearse(request, others, signal);
  return { ...result, left: await at.modelsOf(opened.runName) };
}

describe('LoraServerPublisher.rehearse', () => {
  it('finds a folder that the server does not see, and one that it may not read', async () => {
    const unseen = await rehearse({ serverAdaptersDirectory: '/mnt/adapters', maxRetries: 0 });
    expect(unseen.reason).toMatchObject({ retryable: false, message: expect.stringMatching(/does not find \/mnt\/adapters/) as string });
    await using closed = await nanoServer({ allowAdaptersUnder: ['/mnt'] });
    expect((await rehearseAt(closed)).reason?.message).toMatch(/may not load adapters from .*must be under \/mnt/);
  });

  it('finds a server without places for all versions that it will have at once, and names what occupies them', async () => {
    await using full = await nanoServer({ maxAdapters: 2 });
    const own = new PublisherRun({ url: full.url, baseModel: 'nano-base' });
    const { directory } = own.adapter({});
    await full.post('/v1/load_lora_adapter', { lora_name: 'of-another-run', lora_path: directory });
    expect((await rehearseAt(full, 1)).reason).toBeNull();
    const { reason, left } = await rehearseAt(full, 2);
    expect(reason?.message).toMatch(
      /no place for a further adapter: .*It holds 1 other adapter: of-another-run \(.*\)\. Unload those that nobody uses/,
    );
    expect(left).toEqual([]);
    expect((await full.get('/v1/models')).body.data).toHaveLength(2);
    own[Symbol.dispose]();
  });

  it('leaves a server that does not answer now to the first publish, and says which replicas of a quorum refuse', async () => {
    expect(await rehearse({ baseUrls: [await refusingUrl()], maxRetries: 0 })).toMatchObject({ reason: null, refused: [] });
    await using low = await nanoServer({ maxLoraRank: 2 });
    const two = await rehearse({ baseUrls: [server.url, low.url], maxRetries: 0 });
    expect(two).toMatchObject({
      reason: null,
      refused: [{ replica: low.url, message: expect.stringMatching(/Rank 4 exceeds.*limit of 2/) as string }],
    });
    expect((await rehearse({ baseUrls: [server.url, low.url], quorum: 2, maxRetries: 0 })).reason?.message).toMatch(/Rank 4 exceeds/);
  });
});

describe('rehearsePublish', () => {
  it.each<[string, PublishError | null, RegExp]>([
    ['taken', null, /^$/],
    ['refused', new PublishError('no room'), /cannot serve this run/],
  ])('leaves no folder of the adapter that it published, whether that was %s', async (_, reason, said) => {
    using own = new PublisherRun(server);
    const directories: string[] = [];
    const backend = {
      capabilities: { dtype: 'float32' },
      forward: async () => ({ logProbs: new Float32Array(1) }),
      saveAdapter: async (directory: string) => {
        directories.push(directory);
        return writeAdapter(directory, {});
      },
    };
    const publisher = {
      clear: async () => {},
      rehearse: async () => {
        expect(directories.map((each) => existsSync(each))).toEqual([true]);
        return { reason, refused: [] };
      },
    };
    const session = { backend, publisher, versions: new PolicyVersions({ version: 0, model: 'base' }), name: 'run' };
    const rehearsal = { session, ids: Int32Array.of(1, 2), config: someConfig({}), adaptersDirectory: join(own.folder, 'adapters'), signal };
    const rehearsed = await rehearsePublish(rehearsal as unknown as PublishRehearsal).catch((error: ConfigError) => error.message);
    expect(String(rehearsed)).toMatch(said);
    expect(directories.map((each) => [basename(each), existsSync(each)])).toEqual([['run-check', false]]);
  });
});

async function rehearseAt({ url }: Pick<TestedServer, 'url'>, count = 1) {
  using own = new PublisherRun({ url, baseModel: 'nano-base' });
  return await rehearse({}, { count, at: own, base: 'nano-base' });
}
