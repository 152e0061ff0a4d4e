import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Environment, loadEnvironment, Random } from 'vf-search';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { openRetriever } from '../../src/registry/open-retriever.ts';
import { loopback, sendJson } from '../transport/loopback.ts';

const signal = new AbortController().signal;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'engine-module-'));
  mkdirSync(join(folder, 'nested'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function module(name: string, code: string): string {
  const path = join(folder, name);
  writeFileSync(path, code);
  return path;
}

/** In TypeScript that Node alone does not run. */
const ENGINE = `
import type { CreateRetriever } from 'vf-search/environment-kit';
import { RetrievalError } from 'vf-search';
enum Mark { Shout = '!' }
let asked = 0;
let fails = 1;
export const createRetriever: CreateRetriever = ({ env }) => ({
  name: 'my engine',
  async search(queries, { topk }) {
    asked += queries.length;
    if (queries.includes('flaky') && fails-- > 0) throw new TypeError('fetch failed');
    if (queries.includes('none')) throw new RetrievalError('it is closed');
    return queries.map((query) => [{ id: 'p1', contents: '"' + query + Mark.Shout + '"\\n' + env['WORD'] + ' ' + topk + ' ' + asked }]);
  },
  async close() {},
});
`;

describe('an engine by module', () => {
  it('answers, in TypeScript, with the variables of the run; repeated searches come from the cache; its failures are retried', async () => {
    const retriever = await openRetriever({ engine: module('engine.ts', ENGINE), env: { WORD: 'said' } });
    const ask = async (query: string) => (await retriever.search([query], { topk: 2, signal }))[0]![0]!.contents;
    expect(retriever.name).toBe('my engine');
    expect(await ask('a')).toBe('"a!"\nsaid 2 1');
    expect(await ask('a')).toBe('"a!"\nsaid 2 1');
    expect(await ask('flaky')).toBe('"flaky!"\nsaid 2 3');
    await expect(ask('none')).rejects.toThrow('it is closed');
    await retriever.close();
  });

  it.each([
    ['nothing.ts', 'export const other = 1;', /nothing\.ts \(engine\) does not export a function createRetriever$/],
    ['value.ts', 'export const createRetriever = 1;', /value\.ts \(engine\) exports createRetriever, but it is not a function$/],
    ['broken.ts', 'export const createRetriever = (;', /broken\.ts \(engine\) could not be imported: /],
    ['throws.mjs', "export const createRetriever = () => { throw new Error('no key'); };", /throws\.mjs \(engine\) failed: no key$/],
    [
      'empty.mjs',
      'export const createRetriever = () => ({});',
      /empty\.mjs \(engine\) must return a Retriever: its name is not a non-empty string\. Give it \{ name, search, close \}\.$/,
    ],
    ['closed.mjs', "export const createRetriever = () => ({ name: 'x', search() {} });", /it has no method close/],
    ['null.mjs', 'export const createRetriever = async () => null;', /it returned null/],
  ])('names what the module lacks {%s}', async (name, code, message) => {
    const opened = openRetriever({ engine: module(name, code), env: {} });
    await expect(opened).rejects.toBeInstanceOf(ConfigError);
    await expect(opened).rejects.toThrow(message);
  });

  it.each([
    ['[]', /returned 0 lists for 1 query/],
    ["'no'", /returned string/],
    ['[[{ text: 1 }]]', /returned something else than passages for query 1/],
  ])('names a wrong answer, which is never an empty one {%s}', async (answer, message) => {
    const code = `export const createRetriever = () => ({ name: 'odd', search: async () => ${answer}, close: async () => {} });`;
    const retriever = await openRetriever({ engine: module(`odd-${answer.length}.mjs`, code), env: {}, maxRetries: 0 });
    const searched = retriever.search(['q'], { topk: 1, signal });
    await expect(searched).rejects.toBeInstanceOf(RetrievalError);
    await expect(searched).rejects.toThrow(message);
    await retriever.close();
  });

  it('says which modules and names there are', async () => {
    await expect(openRetriever({ engine: './no-such-engine.ts' })).rejects.toThrow(/There is no module .*no-such-engine\.ts \(engine\)/);
    await expect(openRetriever({ engine: 'bing' })).rejects.toThrow(/or the path of a module, such as \.\/my-engine\.ts, got "bing"/);
    await expect(openRetriever({ engine: module('engine.ts', ENGINE), corpus: 'nq-mini' })).rejects.toThrow(/two sources of passages/);
  });

  it.each(['search-r1', 'search-o1', 'grpo-000', 'visual-rag'])('is an argument of every environment that searches {%s}', async (id) => {
    const engine = module(`own-${id}.ts`, ENGINE);
    const environment = await loadEnvironment(id, { engine, per_second: 1000, data_limit: 1 }, { env: { WORD: 'said' } });
    await environment.close();
    expect(JSON.stringify(environment.provenance)).toContain('my engine');
    await expect(loadEnvironment(id, { engine: module('none.mjs', 'export {};') })).rejects.toThrow(/does not export a function createRetriever/);
    await expect(loadEnvironment(id, { engine: 'bing' })).rejects.toThrow(ConfigError);
  });
});

describe('search_per_second, search_timeout_s and search_retries', () => {
  const search = async (environment: Environment, text: string) => {
    const row = environment.eval.at(0);
    await using episode = await environment.start(row, { random: Random.fromSeed(0), signal });
    return episode.step(text, { finish: 'stop', stopReason: null, toolCalls: [], signal });
  };

  it.each([
    ['search-r1', '<search> hello </search>'],
    ['grpo-000', '<search>hello</search>'],
    ['search-o1', '<|begin_search_query|>hello<|end_search_query|>'],
  ])('reach a web engine {%s}', async (id, text) => {
    await using server = await loopback((_, response) => sendJson(response, 500, { message: 'busy' }));
    const env = { SERPER_API_KEY: 'k', SERPER_BASE_URL: server.url };
    const args = { engine: 'serper', search_retries: 0, search_timeout_s: 5, search_per_second: 500, data_limit: 1 };
    const environment = await loadEnvironment(id, args, { env });
    await expect(search(environment, text)).rejects.toThrow(/500/);
    expect(server.requests).toHaveLength(1);
    await environment.close();
    await expect(loadEnvironment(id, { search_retries: 1 })).rejects.toThrow(/does not use retries|sends no search to a server/);
    await expect(loadEnvironment(id, { ...args, search_per_second: 0 }, { env })).rejects.toThrow(
      /search_per_second must be a number above 0, got 0/,
    );
  });

  it('give a silent server its deadline', async () => {
    await using server = await loopback(() => {});
    const env = { SERPER_API_KEY: 'k', SERPER_BASE_URL: server.url };
    const environment = await loadEnvironment('search-r1', { engine: 'serper', search_retries: 0, search_timeout_s: 0.05, data_limit: 1 }, { env });
    await expect(search(environment, '<search> hello </search>')).rejects.toThrow(/no answer within 50 ms/);
    await environment.close();
  });

  it('reach the server of visual-rag, and are refused without one', async () => {
    await expect(loadEnvironment('visual-rag', { search_retries: 1 })).rejects.toThrow(
      /^search_retries is about the server at search_url, but no search_url is set/,
    );
    await expect(loadEnvironment('visual-rag', { search_url: 'http://x', engine: './e.ts' })).rejects.toThrow(/search_url and engine are both set/);
  });
});
