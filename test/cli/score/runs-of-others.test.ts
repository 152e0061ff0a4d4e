/** vf-score on a run from somebody else: it loads no code that only the run names, and sends no key to a server that only the run names. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { WireMetadata } from '../../../src/schemas/results.ts';
import { loopback, readText, sendJson } from '../../transport/loopback.ts';
import { runInProcess } from '../in-process.ts';

const root = join(import.meta.dirname, '../../..');
const WORLD = JSON.stringify({ dataset: 'fact-world', corpus: 'fact-world' });
let folder: string;
let played: string;
let run: string;

async function command(words: readonly string[], { variables = {}, cwd = folder }: { variables?: Record<string, string>; cwd?: string } = {}) {
  const [name, ...rest] = words;
  const { code, stderr } = await runInProcess(name!, rest, { cwd, env: variables });
  return { code, stderr, lines: stderr.trimEnd().split('\n').length };
}

function change(what: Partial<WireMetadata>): void {
  const path = join(run, 'metadata.json');
  writeFileSync(path, JSON.stringify({ ...(JSON.parse(readFileSync(path, 'utf8')) as WireMetadata), ...what }));
}

/** An environment that leaves a file behind when its code runs, and then is search-r1. */
function environmentAt(path: string): string {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  const traces = JSON.stringify(join(folder, 'ran'));
  const own = JSON.stringify(join(root, 'environments/search-r1/environment.ts'));
  writeFileSync(file, `import { writeFileSync } from 'node:fs';\nwriteFileSync(${traces}, '');\nexport { loadEnvironment } from ${own};\n`);
  return file;
}

const hasRun = () => existsSync(join(folder, 'ran'));

beforeAll(async () => {
  played = mkdtempSync(join(tmpdir(), 'vf-score-played-'));
  await command(['vf-eval', 'search-r1', '-n', '2', '-a', WORLD, '-o', played, '--plain'], { cwd: played });
  const parent = join(played, 'evals/search-r1--extractive-baseline');
  played = join(parent, readdirSync(parent)[0]!);
}, 60_000);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-score-others-'));
  run = join(folder, 'run');
  cpSync(played, run, { recursive: true });
  return () => rmSync(folder, { recursive: true });
});

afterAll(() => rmSync(join(played, '../../..'), { recursive: true }));

describe('vf-score on a run from somebody else', { timeout: 60_000 }, () => {
  it.each([
    ['inside the run', 'run/environment.ts', []],
    ['next to the run', 'theirs/environment.ts', []],
    ['inside the run, which is in the folder of environments', 'run/environment.ts', ['--env-dir-path', '.']],
  ])('loads no environment by a path %s, unless the user names it', async (_, path, words) => {
    const file = environmentAt(path);
    change({ env_id: file });
    const { code, stderr, lines } = await command(['vf-score', 'run', '--in-place', ...words]);
    expect({ code, lines, ran: hasRun() }).toEqual({ code: 2, lines: 1, ran: false });
    expect(stderr).toContain(`If you trust that code, name it: --env ${file}`);
    expect(await command(['vf-score', 'run', '--in-place', '--env', file])).toMatchObject({ code: 0 });
    expect(hasRun()).toBe(true);
  });

  it('loads an environment by a path into the folder of environments, but not by a link that leads out of it', async () => {
    change({ env_id: environmentAt('environments/own/environment.ts') });
    expect(await command(['vf-score', 'run', '--in-place'])).toMatchObject({ code: 0 });
    environmentAt('theirs/environment.ts');
    symlinkSync(join(folder, 'theirs'), join(folder, 'environments/link'));
    change({ env_id: './environments/link' });
    expect(await command(['vf-score', 'run', '--in-place'])).toMatchObject({ code: 2 });
  });

  it('loads no environment out of the run where the command is started in it', async () => {
    environmentAt('run/environments/search-r1/environment.ts');
    expect(await command(['vf-score', '.', '-o', '../new'], { cwd: run })).toMatchObject({ code: 2, lines: 1 });
    expect(hasRun()).toBe(false);
  });

  it('says how to name an environment that it does not find', async () => {
    change({ env_id: 'nowhere' });
    const { code, stderr, lines } = await command(['vf-score', 'run', '--in-place']);
    expect({ code, lines }).toEqual({ code: 2, lines: 1 });
    expect(stderr).toContain('If you played it from a path, name that path: --env PATH');
  });

  it('opens no pipeline that only the run names, since its servers are modules', async () => {
    writeFileSync(join(run, 'theirs.yaml'), '');
    change({ env_id: 'pipeline', env_args: { file: join(run, 'theirs.yaml') } });
    const { code, stderr, lines } = await command(['vf-score', 'run', '--in-place']);
    expect({ code, lines }).toEqual({ code: 2, lines: 1 });
    expect(stderr).toContain(`If you trust that file, name it: -a '{"file":"${join(run, 'theirs.yaml')}"}'`);
  });

  it('names all files of a run at once', async () => {
    for (const name of ['agent.py', 'questions.jsonl']) writeFileSync(join(run, name), '');
    const args = { command: ['python3', join(run, 'agent.py')], dataset: join(run, 'questions.jsonl') };
    change({ env_id: 'agent', env_args: args });
    const { stderr } = await command(['vf-score', 'run', '--in-place']);
    expect(stderr).toContain(`the files ${args.command[1]!} (argument command), ${args.dataset} (argument dataset), which`);
    expect(stderr).toContain(`If you trust them, name them: -a '${JSON.stringify(args)}'`);
  });

  it.each([
    ['a pipeline whose name ends otherwise', { file: 'run/p.conf' }, '.'],
    ['the pipeline of a run without arguments, where the command is started in it', {}, 'run'],
  ])('runs no module of %s', async (_, args, from) => {
    const pipeline = readFileSync(join(root, 'examples/own-tools.yaml'), 'utf8').replace(/^( +mine: ).*$/m, '$1evil.ts');
    mkdirSync(join(run, 'examples'));
    for (const path of ['run/p.conf', 'run/examples/own-tools.yaml']) {
      writeFileSync(join(folder, path), pipeline);
      writeFileSync(
        join(folder, dirname(path), 'evil.ts'),
        `import { writeFileSync } from 'node:fs';\nwriteFileSync(${JSON.stringify(join(folder, 'ran'))}, '');\n`,
      );
    }
    change({ env_id: 'pipeline', env_args: args });
    const words = ['vf-score', run, '-o', join(folder, 'new')];
    const cwd = join(folder, from);
    const { code, stderr, lines } = await command(words, { cwd });
    expect({ code, lines, ran: hasRun(), stderr }).toEqual({
      code: 2,
      lines: 1,
      ran: false,
      stderr: expect.stringMatching(/name (it|the file): -a '/) as string,
    });
    await command([...words, '-a', JSON.stringify({ file: join(run, 'p.conf') })]);
    expect(hasRun()).toBe(true);
  });

  it('reads no file that only the run names, whatever its name ends with', async () => {
    writeFileSync(join(run, 'theirs'), '');
    for (const dataset of ['run/theirs', `file://${join(run, 'theirs')}`]) {
      change({ env_args: { dataset } });
      const { code, stderr, lines } = await command(['vf-score', 'run', '--in-place']);
      expect({ code, lines }).toEqual({ code: 2, lines: 1 });
      expect(stderr).toContain(`If you trust that file, name it: -a '{"dataset":"${dataset}"}'`);
    }
  });

  it('sends keys only to a server that the user names', async () => {
    const headers: IncomingHttpHeaders[] = [];
    await using server = await loopback(async (request, response) => {
      headers.push(request.headers);
      if (request.method === 'GET') return sendJson(response, 200, { data: [{ id: 'm' }] });
      if (request.url === '/v1/embeddings') {
        const { input } = JSON.parse(await readText(request)) as { input: readonly string[] };
        return sendJson(response, 200, { data: input.map((_, index) => ({ index, embedding: [1, 0] })) });
      }
      const { searches } = JSON.parse(await readText(request)) as { searches: readonly unknown[] };
      return sendJson(response, 200, { result: searches.map(() => ({ points: [] })) });
    });
    const urls = { retriever_url: server.url, embeddings_url: `${server.url}/v1` };
    const variables = { EMBEDDINGS_API_KEY: 'key-of-embeddings', QDRANT_API_KEY: 'key-of-qdrant', SEARCH_TOKEN: 'key-of-search' };
    const keysSent = () => JSON.stringify(headers.splice(0)).match(/key-of-\w+/g) ?? [];
    change({ env_args: { dataset: 'fact-world', engine: 'qdrant', collection: 'c', embeddings_model: 'm', ...urls } });
    const { code, stderr } = await command(['vf-score', 'run', '--in-place'], { variables });
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(server.requests).toEqual(expect.arrayContaining(['POST /v1/embeddings', 'POST /collections/c/points/query/batch']));
    expect(keysSent()).toEqual([]);
    expect(stderr).toContain(
      'The environment gets no key (EMBEDDINGS_API_KEY, QDRANT_API_KEY, SEARCH_TOKEN), because only the run names its server (retriever_url)',
    );
    expect(await command(['vf-score', 'run', '-a', JSON.stringify(urls), '-o', 'new'], { variables })).toMatchObject({
      code: 0,
      stderr: '',
    });
    expect(keysSent()).toEqual(expect.arrayContaining(['key-of-embeddings', 'key-of-qdrant']));
  });
});
