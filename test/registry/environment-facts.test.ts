import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { environmentFacts, factOf, factsIfLoaded } from '../../src/registry/environment-facts.ts';

describe('environmentFacts', () => {
  const folder = mkdtempSync(join(tmpdir(), 'vf-facts-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const environment = (name: string, text: string) => {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'package.json'), '{ "type": "module" }');
    writeFileSync(join(folder, name, 'environment.ts'), `export const loadEnvironment = () => null;\n${text}\n`);
    return join(folder, name);
  };

  it("gives what a user's own environment says of itself", async () => {
    const path = environment('own', "export const facts = { dataSets: ['mine'], executor: ({ box = 'wasi' }) => box };");
    const facts = await environmentFacts(path);
    expect(facts.dataSets).toEqual(['mine']);
    expect(await factOf(facts.executor, { box: 'bubblewrap' })).toBe('bubblewrap');
    expect(await factOf(facts.standInCorpus, {})).toBeNull();
    expect(await environmentFacts(environment('silent', ''))).toEqual({});
  });

  it('says of the bundled ones what commands ask', async () => {
    expect(await environmentFacts('visual_rag')).toEqual({ dataSets: ['deck-mini', 'page-world'] });
    expect(await environmentFacts('pipeline')).toEqual({ fileArguments: { file: 'examples/own-tools.yaml' } });
    const { standInCorpus } = await environmentFacts('search-r1');
    const corpora = [
      { dataset: 'nq' },
      {},
      { dataset: 'fact-world' },
      { dataset: 'nq', corpus: 'mine.jsonl' },
      { dataset: 'nq', retrieverUrl: 'http://h' },
    ];
    expect(await Promise.all(corpora.map((args) => factOf(standInCorpus, args)))).toEqual(['nq-mini', null, null, null, null]);
    const { executor } = await environmentFacts('self-play-code');
    expect(await factOf(executor, { execution: { workers: 3 } })).toBe('wasi');
    expect(await factOf(executor, { execution: 'nowhere' })).toBeNull();
  });

  it.each([
    ['text', '"text"', /must be an object$/],
    ['another key', '{ colour: 1 }', /must not have the key "colour"; known keys: dataSets, fileArguments, executor, standInCorpus$/],
    ['a name in place of a function', '{ executor: "wasi" }', /must give executor and standInCorpus as functions$/],
    ['a list of numbers', '{ dataSets: [1] }', /must give dataSets as a list of names$/],
    ['a file that is a number', '{ fileArguments: { file: 1 } }', /must give fileArguments as an object of paths and nulls$/],
  ])('refuses %s in one line, and a command that need not know goes on', async (name, text, message) => {
    const path = environment(name.replaceAll(' ', '-'), `export const facts = ${text};`);
    await expect(environmentFacts(path)).rejects.toThrow(message);
    expect(await factsIfLoaded(path)).toEqual({});
  });
});
