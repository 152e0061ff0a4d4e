import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { fetchHubSplit, FLASHRAG_REVISION, FLASHRAG_SOURCES, parseHubName } from '../../src/data/hub.ts';
import { hubCacheFolder } from '../../src/data/hub-cache.ts';
import { loadRows } from '../../src/data/load-rows.ts';
import { type HubContent, type LoopbackHub, startLoopbackHub } from './loopback-hub.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';

const line = (id: string, question: string) => `${JSON.stringify({ id, question, golden_answers: ['yes'], metadata: { from: id } })}\n`;
const flashrag: HubContent = {
  repository: 'RUC-NLPIR/FlashRAG_datasets',
  commit: FLASHRAG_REVISION,
  files: {
    'nq/train.jsonl': line('train_0', 'a') + line('train_1', 'b'),
    'nq/dev.jsonl': line('dev_0', 'c'),
    'nq/test.jsonl': line('test_0', 'd') + line('test_1', 'e'),
    'hotpotqa/train.jsonl': line('train_0', 'f'),
    'hotpotqa/dev.jsonl': line('dev_0', 'g') + line('dev_1', 'h'),
    'popqa/train.jsonl': line('train_0', 'i'),
  },
};

let cacheDir: string;
let hub: LoopbackHub;
const start = async (content: Partial<HubContent> = {}) => {
  hub = await startLoopbackHub({ ...flashrag, ...content });
};
const env = (more: Record<string, string> = {}) => ({ HF_ENDPOINT: hub.url, ...more });
const fetchSplit = (name: string, split: string, more: Record<string, string> = {}) =>
  fetchHubSplit(parseHubName(name)!, split, { env: env(more), cacheDir, retryDelayMs: 1 });

beforeEach(() => {
  cacheDir = mkdtempSync(join(tmpdir(), 'vf-hub-'));
});
afterEach(async () => {
  await hub?.close();
  rmSync(cacheDir, { recursive: true });
});

describe('parseHubName', () => {
  it('knows the seven sources by name and pins them to one commit', () => {
    for (const source of FLASHRAG_SOURCES) {
      const expected = { repository: 'RUC-NLPIR/FlashRAG_datasets', config: source, revision: FLASHRAG_REVISION, source };
      expect(parseHubName(source)).toEqual(expected);
      expect(parseHubName(`RUC-NLPIR/FlashRAG_datasets/${source}`)).toEqual(expected);
    }
    expect(FLASHRAG_REVISION).toMatch(/^[0-9a-f]{40}$/);
  });

  it('reads any other data set with its folder and revision', () => {
    expect(parseHubName('org/name')).toEqual({ repository: 'org/name', config: '', revision: 'main', source: 'org/name' });
    expect(parseHubName('org/name/a/b@v1.0')).toEqual({ repository: 'org/name', config: 'a/b', revision: 'v1.0', source: 'org/name/a/b' });
    expect(parseHubName('nq@main')?.revision).toBe('main');
  });

  it.each(['unknown', '../secret', 'org/..', 'org/name/../x', 'a b/c', 'org/name@../x', '@', ''])('refuses %j', (name) => {
    expect(parseHubName(name)).toBeNull();
  });
});

describe('fetchHubSplit', () => {
  it('takes a file with the name of the data set as its training split, where it may and there is no other', async () => {
    await start({ repository: 'GAIR/LIMO', files: { 'limo.jsonl': '{"question": "q"}\n' } });
    const fetched = (split: string, more: object) =>
      fetchHubSplit(parseHubName('GAIR/LIMO')!, split, { env: env(), cacheDir, retryDelayMs: 1, ...more });
    await expect(fetched('train', {})).rejects.toThrow('has no train.jsonl or train.parquet or data/train-00000-of-00001.parquet on the hub');
    await expect(fetched('dev', { takesOwnName: true })).rejects.toThrow('has no dev.jsonl or dev.parquet');
    await expect(fetched('dev', {})).rejects.toThrow(/Check the name and the split; a subset follows the name, as in \S+\/SUBSET\.$/);
    const { path, file } = await fetched('train', { takesOwnName: true });
    expect([file, readFileSync(path, 'utf8')]).toEqual(['limo.jsonl', '{"question": "q"}\n']);
    // Cached, the absence of train.jsonl as well.
    const before = hub.requests.length;
    await fetched('train', { takesOwnName: true });
    expect(hub.requests.slice(before)).toEqual(['GET /api/datasets/GAIR/LIMO/revision/main']);
  });

  it('finds the Parquet file of a split before it falls back to another split', async () => {
    await start({
      repository: 'org/name',
      files: { 'test.parquet': 'PAR1', 'train.jsonl': line('0', 'q'), 'data/dev-00000-of-00001.parquet': 'PAR1' },
    });
    const fileOf = async (split: string) => (await fetchSplit('org/name', split)).file;
    expect([await fileOf('test'), await fileOf('train'), await fileOf('dev')]).toEqual([
      'test.parquet',
      'train.jsonl',
      'data/dev-00000-of-00001.parquet',
    ]);
  });

  it('downloads a file once, whatever its kind of hash, in the layout of the Python tools', async () => {
    for (const lfs of [false, true]) {
      await start({ lfs });
      const dir = join(cacheDir, String(lfs));
      const first = await fetchHubSplit(parseHubName('nq')!, 'test', { env: env(), cacheDir: dir });
      expect(readFileSync(first.path, 'utf8')).toBe(flashrag.files['nq/test.jsonl']);
      expect(first).toMatchObject({ file: 'nq/test.jsonl', revision: FLASHRAG_REVISION });
      expect(first.path).toBe(join(dir, 'datasets--RUC-NLPIR--FlashRAG_datasets', 'snapshots', FLASHRAG_REVISION, 'nq', 'test.jsonl'));
      expect(readdirSync(join(dir, 'datasets--RUC-NLPIR--FlashRAG_datasets', 'blobs'))).toHaveLength(1);
      await hub.close();
      await expect(fetchHubSplit(parseHubName('nq')!, 'test', { env: env(), cacheDir: dir })).resolves.toEqual(first);
    }
  });

  it('reads files that the hub keeps in Xet storage over plain HTTP', async () => {
    await start({ xet: true, lfs: true });
    const { path } = await fetchSplit('nq', 'train');
    expect(readFileSync(path, 'utf8')).toBe(flashrag.files['nq/train.jsonl']);
    expect(hub.requests).toContain('GET /storage/nq/train.jsonl');
  });

  it('asks for nothing at all on a second run, also where a split fell back', async () => {
    await start();
    const first = await fetchSplit('hotpotqa', 'test');
    expect(first.file).toBe('hotpotqa/dev.jsonl');
    expect(hub.requests.length).toBeGreaterThan(2);
    hub.requests.length = 0;
    expect(await fetchSplit('hotpotqa', 'test')).toEqual(first);
    expect(hub.requests).toEqual([]);
  });

  it('falls back from test to dev to train, and for no other split', async () => {
    await start();
    expect((await fetchSplit('nq', 'test')).file).toBe('nq/test.jsonl');
    expect((await fetchSplit('popqa', 'test')).file).toBe('popqa/train.jsonl');
    await expect(fetchSplit('popqa', 'dev')).rejects.toThrow(/^The data set .* has no popqa\/dev\.jsonl on the hub/);
    await expect(fetchSplit('bamboogle', 'test')).rejects.toThrow(/bamboogle\/test\.jsonl or bamboogle\/dev\.jsonl or bamboogle\/train\.jsonl/);
  });

  it('does not mistake a missing repository for a missing split', async () => {
    await start();
    await expect(fetchSplit('no/such@0123456789012345678901234567890123456789', 'test')).rejects.toBeInstanceOf(ConfigError);
    await expect(fetchSplit('no/such', 'test')).rejects.toThrow(
      /^Could not fetch revision main of the data set no\/such .* \(404\): it does not exist there\. Check the name\.$/,
    );
    expect(existsSync(join(cacheDir, 'datasets--no--such'))).toBe(false);
  });

  it('asks which commit a branch means, and remembers it for a run without a network', async () => {
    await start({ repository: 'org/name', files: { 'train.jsonl': line('0', 'q') } });
    const first = await fetchSplit('org/name', 'train');
    expect(first.revision).toBe(FLASHRAG_REVISION);
    await hub.close();
    expect(await fetchSplit('org/name', 'train')).toEqual(first);
  });

  it('sends the token, and names HF_TOKEN when the hub refuses, without showing it', async () => {
    await start({ token: 'hf_right-token' });
    await expect(fetchSplit('nq', 'test')).rejects.toThrow(/\(401\).*set HF_TOKEN/);
    const refused = fetchSplit('nq', 'test', { HF_TOKEN: 'hf_wrong-token' });
    await expect(refused).rejects.toThrow(/\(401\): the token in HF_TOKEN is invalid/);
    await expect(refused).rejects.not.toThrow(/wrong-token/);
    await expect(fetchSplit('nq', 'test', { HF_TOKEN: 'my-password' })).rejects.toThrow('HF_TOKEN is not a Hugging Face token');
    await expect(fetchSplit('nq', 'test', { HF_TOKEN: 'hf_right-token\n' })).resolves.toMatchObject({ file: 'nq/test.jsonl' });
  });

  it('gets over a busy hub, a cut connection and a short body, and keeps only whole files', async () => {
    await start();
    hub.unavailable = 2;
    hub.cutBodies = 1;
    const { path } = await fetchSplit('nq', 'train');
    expect(readFileSync(path, 'utf8')).toBe(flashrag.files['nq/train.jsonl']);
    hub.shortenBodies = 1;
    const other = await fetchSplit('nq', 'dev');
    expect(readFileSync(other.path, 'utf8')).toBe(flashrag.files['nq/dev.jsonl']);
  });

  it.each(['cutBodies', 'shortenBodies'] as const)('leaves nothing behind when %s never ends', async (fault) => {
    await start();
    hub[fault] = 99;
    await expect(fetchSplit('nq', 'test')).rejects.toBeInstanceOf(ConfigError);
    expect(readdirSync(join(cacheDir, 'datasets--RUC-NLPIR--FlashRAG_datasets', 'blobs'))).toEqual([]);
    hub[fault] = 0;
    expect((await fetchSplit('nq', 'test')).file).toBe('nq/test.jsonl');
  });

  it('says what to check when the hub cannot be reached', async () => {
    await start();
    await hub.close();
    await expect(fetchSplit('nq', 'test')).rejects.toThrow(/Could not fetch nq\/test\.jsonl .*ECONNREFUSED.*Check the network and HF_ENDPOINT/);
    await expect(fetchSplit('nq', 'test', { HF_ENDPOINT: 'hub.example' })).rejects.toThrow('HF_ENDPOINT must be an http(s) URL, got hub.example');
  });

  it('stops when it is asked to', async () => {
    await start();
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(fetchHubSplit(parseHubName('nq')!, 'test', { env: env(), cacheDir, signal })).rejects.toMatchObject({ name: 'CancelledError' });
  });

  it('serves eight calls at once with one blob', async () => {
    await start();
    const all = await Promise.all(Array.from({ length: 8 }, () => fetchSplit('nq', 'test')));
    expect(new Set(all.map((r) => r.path)).size).toBe(1);
    expect(readdirSync(join(cacheDir, 'datasets--RUC-NLPIR--FlashRAG_datasets', 'blobs'))).toHaveLength(1);
  });

  it.each(['../evil', 'a/b', '', 'x'.repeat(200)])('refuses the split %j', async (split) => {
    await start();
    await expect(fetchSplit('nq', split)).rejects.toThrow('is not a split name. Use train, dev or test');
  });
});

describe('loadRows from the hub', () => {
  it('merges sources, counts from 0 in each, and calls dev rows test', async () => {
    await start();
    const { rows, provenance } = await loadRows({ dataset: 'nq,hotpotqa', env: env(), cacheDir });
    expect(rows.map((r) => [r.id, r.data_source, r.split, r.index])).toEqual([
      ['nq/test_0', 'nq', 'test', 0],
      ['nq/test_1', 'nq', 'test', 1],
      ['hotpotqa/dev_0', 'hotpotqa', 'test', 0],
      ['hotpotqa/dev_1', 'hotpotqa', 'test', 1],
    ]);
    expect(rows[0]!['metadata']).toEqual({ from: 'test_0' });
    expect(provenance.sources.map((s) => [s.file, s.revision, s.rows])).toEqual([
      ['RUC-NLPIR/FlashRAG_datasets/nq/test.jsonl', FLASHRAG_REVISION, 2],
      ['RUC-NLPIR/FlashRAG_datasets/hotpotqa/dev.jsonl', FLASHRAG_REVISION, 2],
    ]);
  });
});

describe('a process that loads rows', () => {
  const script = `
    import { loadRows } from ${JSON.stringify(pathToFileURL(join(import.meta.dirname, '../../src/data/load-rows.ts')).href)};
    process.stderr.write('started ');
    const { rows } = await loadRows({ dataset: 'nq', split: 'train', env: process.env });
    process.stderr.write(String(rows.length));`;
  const load = () =>
    spawn(process.execPath, ['--input-type=module', '-e', script], { env: { ...BARE_ENVIRONMENT, HF_ENDPOINT: hub.url, HF_HUB_CACHE: cacheDir } });

  it('writes nothing to stdout, and is not disturbed by one that was killed in the middle of the download', async () => {
    await start();
    hub.stallBodies = 1;
    const killed = load();
    await vi.waitUntil(() => hub.requests.filter((r) => r.startsWith('GET')).length === 2, { timeout: 10_000 });
    killed.kill('SIGKILL');
    await once(killed, 'close');
    const second = load();
    const [stdout, stderr] = await Promise.all([text(second.stdout), text(second.stderr), once(second, 'close')]);
    expect([stdout, stderr]).toEqual(['', 'started 2']);
  });
});

describe('hubCacheFolder', () => {
  it('follows the order of the Python tools', () => {
    const all = { HF_HUB_CACHE: '/a', HUGGINGFACE_HUB_CACHE: '/b', HF_HOME: '/c', XDG_CACHE_HOME: '/d' };
    expect(hubCacheFolder(all)).toBe('/a');
    expect(hubCacheFolder({ ...all, HF_HUB_CACHE: '' })).toBe('/b');
    expect(hubCacheFolder({ HF_HOME: '/c', XDG_CACHE_HOME: '/d' })).toBe('/c/hub');
    expect(hubCacheFolder({ XDG_CACHE_HOME: '/d' })).toBe('/d/huggingface/hub');
    expect(hubCacheFolder({})).toMatch(/\.cache\/huggingface\/hub$/);
  });
});
