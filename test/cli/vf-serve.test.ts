import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { loopback, sendJson, until } from '../transport/loopback.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { runInProcess } from './in-process.ts';

const root = join(import.meta.dirname, '../..');
const started = new Set<ChildProcessWithoutNullStreams>();
afterEach(() => {
  for (const child of started) child.kill('SIGKILL');
  started.clear();
});

interface Run {
  readonly child: ChildProcessWithoutNullStreams;
  stdout: string;
  stderr: string;
  /** Resolves to `[exit code, signal]`. */
  readonly ended: Promise<unknown[]>;
}

function run(args: readonly string[], { env = {}, cwd = root }: { env?: Record<string, string>; cwd?: string } = {}): Run {
  const child = spawn(process.execPath, args, { cwd, env: { ...BARE_ENVIRONMENT, ...env } });
  started.add(child);
  const result: Run = { child, stdout: '', stderr: '', ended: once(child, 'close') };
  child.stdout.on('data', (chunk) => (result.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (result.stderr += String(chunk)));
  return result;
}

/** For what ends by itself: in the process of the test. */
const ended = (...args: readonly string[]) => runInProcess('vf-serve', args, { cwd: tmpdir(), env: {} });
const vfServe = (args: readonly string[], options = {}) => run([join(root, 'src/cli/vf-serve.ts'), ...args], options);

async function serving(args: readonly string[], options = {}): Promise<Run & { readonly url: string }> {
  const result = vfServe(['retrieve', '--port', '0', ...args], options);
  await Promise.race([until(() => result.stdout.includes('\n')), result.ended]);
  expect(result).toMatchObject({ stdout: expect.stringMatching(/^http:\/\/[^\n]+\/retrieve\n$/) as string });
  return Object.assign(result, { url: result.stdout.trim() });
}

const headers = { 'content-type': 'application/json' };
const ask = async (url: string, body: object) => (await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })).json();

describe('vf-serve retrieve', () => {
  it('answers as Search-R1 expects over a bundled corpus, until it is interrupted (130)', async () => {
    const server = await serving(['--corpus', 'fact-world']);
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/retrieve$/);
    expect(await ask(server.url, { queries: ['Who is the mayor of Kinzer?'], topk: 1, return_scores: true })).toEqual({
      result: [[{ document: { id: '0', contents: 'Kinzer\nThe mayor of Kinzer is Purorka.' }, score: expect.any(Number) }]],
    });
    expect(await ask(server.url, { queries: ['Kinzer', 'xylophone'] })).toMatchObject({ result: [[{}, {}, {}], []] });
    server.child.kill('SIGINT');
    expect(await server.ended).toEqual([130, null]);
    expect(server.stderr).toMatch(/^vf-serve: searching .*fact-world.*, 3 passages per query; Ctrl-C stops\n/);
  });

  it('finishes the requests under way when it is asked to stop (143), and cuts them when asked twice', async () => {
    for (const twice of [false, true]) {
      const gate = Promise.withResolvers<void>();
      await using upstream = await loopback(async (_, response) => {
        await gate.promise;
        sendJson(response, 200, { result: [['found']] });
      });
      const server = await serving(['--url', upstream.url]);
      const answer = ask(server.url, { queries: ['q'] }).catch(() => 'cut');
      await until(() => upstream.requests.length === 1);
      server.child.kill('SIGTERM');
      await until(() => server.stderr.includes('finishing pending requests'));
      if (twice) server.child.kill('SIGTERM');
      else gate.resolve();
      expect(await server.ended).toEqual([143, null]);
      expect(await answer).toEqual(twice ? 'cut' : { result: [[{ contents: 'found' }]] });
      gate.resolve();
    }
  });

  it.each([
    ['serper', 'x-api-key', { SERPER_API_KEY: 'sk-hidden-77' }, 'SERPER_BASE_URL', 'POST'],
    ['google', 'x-goog-api-key', { GOOGLE_API_KEY: 'sk-hidden-77', GOOGLE_CSE_ID: 'cx:1' }, 'GOOGLE_CSE_BASE_URL', 'GET'],
  ])('puts the web engine %s behind the protocol without showing its key', async (engine, header, keys, variable, method) => {
    await using web = await loopback((request, response) => sendJson(response, 401, { message: `no ${String(request.headers[header])}` }));
    const server = await serving(['--engine', engine], { env: { ...keys, [variable]: web.url } });
    const answer = expect.stringMatching(new RegExp(`check ${Object.keys(keys)[0]}`)) as string;
    expect(await ask(server.url, { queries: ['q'] })).toMatchObject({ detail: answer });
    server.child.kill('SIGINT');
    await server.ended;
    expect(server.stderr).toContain(`RetrievalError: [${method}]`);
    expect(server.stderr).not.toContain('sk-hidden-77');
  });

  it('answers from a SearXNG server, whose password is not shown', async () => {
    await using web = await loopback((_, response) => sendJson(response, 200, { results: [{ title: 'T', content: 'c' }] }));
    const address = web.url.replace('http://', 'http://me:hunter22@');
    const server = await serving(['--engine', 'searxng', '--topk', '2'], { env: { SEARXNG_URL: address } });
    expect(await ask(server.url, { queries: ['q'] })).toMatchObject({ result: [[{ contents: '"T"\nc' }]] });
    server.child.kill('SIGINT');
    await server.ended;
    expect(server.stderr).toContain('searching searxng');
    expect(server.stderr).not.toContain('hunter22');
  });

  it('warns when others can reach it', async () => {
    const server = await serving(['--corpus', 'fact-world', '--host', '0.0.0.0']);
    await until(() => server.stderr.includes('without a password'));
    expect(server.stderr).toContain('listening on 0.0.0.0');
  });

  it.each([
    [['retrieve', '--corpus', 'wiki-18'], /^vf-serve: The corpus "wiki-18" does not exist\. Use one of fact-world, nq-mini, /],
    [['retrieve', '--port', '80a'], /^vf-serve: --port must be an integer from 0 to 65535, got "80a"/],
    [
      ['retrieve', '--engine', 'bing'],
      /^vf-serve: .*--engine must be one of bm25, dense, hybrid, http, qdrant, opensearch, serper, google or searxng, or the path of a module, got "bing"/,
    ],
    [['retrieve', '--engine', 'serper'], /^vf-serve: .*SERPER_API_KEY/],
    [['retrieve', '--engine', 'google'], /^vf-serve: .*GOOGLE_API_KEY/],
    [['retrieve', '--engine', 'searxng'], /^vf-serve: .*SEARXNG_URL/],
    [['retrieve', '--url', 'localhost:8000'], /^vf-serve: The URL .* does not begin with http/],
    [['retrieve', '--max-wait', '5'], /^vf-serve: The engine bm25 sends no search to a server, so it does not use --max-wait\./],
    [['retrieve', '--corpu', 'x'], /^vf-serve: Unknown flag --corpu \(did you mean --corpus\?\); vf-serve retrieve --help lists them all/],
    [['retrieve', 'nq-mini'], /^vf-serve: vf-serve retrieve takes no argument, got 1: nq-mini/],
    [['execute', '--executor', 'docker'], /^vf-serve: .*--executor must be one of wasi, bubblewrap or none, got "docker"/],
    [
      ['execute', '--executor', 'none', '--host', '0.0.0.0'],
      /^vf-serve: With the executor none, anyone who can reach 0\.0\.0\.0 could run commands here/,
    ],
    [['execute', '--python', '/usr/bin/python3'], /^vf-serve: The executor wasi has a Python of its own/],
    [['retreive'], /^vf-serve: Unknown command retreive \(did you mean retrieve\?\); vf-serve --help lists them all/],
  ])('answers %j with one line and exit code 2', async (args, message) => {
    const { code, stdout, stderr } = await ended(...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd()).not.toContain('\n');
  });

  it('answers a port in use with one line and exit code 2', async () => {
    await using taken = await loopback(() => {});
    const { port } = new URL(taken.url);
    const { code, stderr } = await ended('retrieve', '--corpus', 'fact-world', '--port', port);
    expect([code, stderr]).toEqual([2, `vf-serve: Port ${port} on 127.0.0.1 is in use; choose another one (--port 0 picks a free one)\n`]);
  });

  it('teaches with --help', async () => {
    const help = await ended('retrieve', '--help');
    expect(help.code).toBe(0);
    for (const word of [
      '--corpus',
      '--engine',
      '--url',
      '--port',
      '--host',
      '--topk',
      'curl',
      'vf-eval',
      'SERPER_API_KEY',
      'GOOGLE_CSE_ID',
      'SEARXNG_URL',
    ])
      expect(help.stdout).toContain(word);
    const overview = await ended('--help');
    expect(overview).toMatchObject({ code: 0, stdout: expect.stringContaining('retrieve') as string });
    expect(await ended()).toMatchObject({ code: 2, stderr: overview.stdout });
  });
});

describe('bin/vf-serve.js', () => {
  function installed(): string {
    const folder = mkdtempSync(join(tmpdir(), 'vf-bin-'));
    cpSync(join(root, 'bin'), join(folder, 'bin'), { recursive: true });
    writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
    return folder;
  }

  it('says how to build the package when it is not built', async () => {
    const result = run([join(installed(), 'bin/vf-serve.js')]);
    expect(await result.ended).toEqual([2, null]);
    expect(result.stderr).toMatch(/^vf-serve: .*npm run build.*\n$/);
  });

  it('says which Node it needs when it is started by an older one', async () => {
    const preload = join(installed(), 'old-node.mjs');
    writeFileSync(preload, "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.19.0' } });");
    const result = run(['--import', pathToFileURL(preload).href, join(root, 'bin/vf-serve.js')]);
    expect(await result.ended).toEqual([2, null]);
    expect(result.stderr).toMatch(/^vf-serve: Node 22\.12 or newer is needed, but this is Node 20\.19\.0.*\n$/);
  });

  it('starts the compiled command', async () => {
    const folder = installed();
    mkdirSync(join(folder, 'dist/src/cli'), { recursive: true });
    writeFileSync(join(folder, 'dist/src/cli/vf-serve.js'), "process.stdout.write(process.argv.slice(2).join(' '));");
    const result = run([join(folder, 'bin/vf-serve.js'), 'retrieve', '--help']);
    expect(await result.ended).toEqual([0, null]);
    expect(result.stdout).toBe('retrieve --help');
  });
});
