import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { ConfigError, scriptedModel } from 'vf-search';
import { loadEnvironment } from 'vf-search/environments/visual-rag';
import { afterAll, describe, expect, it } from 'vitest';
import { bundledFolder } from '../../../src/data/bundled.ts';
import { RunImages } from '../../../src/files/run-images.ts';
import { servePages } from '../../retrieval/served-pages.ts';
import { box, COMPLETE, finds, observations, playOne, ROW, search } from './fixtures.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-visual-'));
afterAll(() => rmSync(folder, { recursive: true }));

function written(name: string, lines: readonly unknown[]): string {
  const path = join(folder, name);
  writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  return path;
}

const SIDECAR = {
  id: 'report_1',
  width: 1024,
  height: 768,
  words: [
    ['Revenue', 100, 100, 300, 140, 0],
    ['100', 320, 100, 400, 140, 0],
  ],
};

describe('loadEnvironment', () => {
  it('plays deck-mini by its words: the first search finds the page of the first question, and the reader answers it', async () => {
    const environment = await loadEnvironment();
    try {
      expect(environment.eval.length).toBe(72);
      const { question, golden_pages: golden } = environment.eval.at(0).info;
      const rollout = await playOne(environment, [search(question), COMPLETE]);
      expect(observations(rollout)[0]).toMatch(/^Page, 728 x 560 pixels:\n\[\d+, \d+, \d+, \d+\] \w/);
      expect(rollout).toMatchObject({ reward: 1, state: { pages: golden, generated_answer: environment.eval.at(0).answer } });
      expect(environment.needs).toEqual([]);
      expect(JSON.stringify(environment.provenance)).toContain('dcd0c43');
    } finally {
      await environment.close();
    }
  });

  it('trains on the train split and evaluates on the test split', async () => {
    const environment = await loadEnvironment({}, { purpose: 'training' });
    await environment.close();
    expect([environment.train.length, environment.eval.length]).toEqual([72, 72]);
    expect(new Set([...environment.train, ...environment.eval].map(({ exampleId }) => exampleId)).size).toBe(144);
  });

  it('shows deck-mini as pictures, each crop enlarged, and keeps them in the store that it is given', async () => {
    const images = new RunImages();
    const environment = await loadEnvironment({ observations: 'image' }, { images });
    try {
      expect(environment.needs).toEqual(['images']);
      expect(environment.images).toBe(images);
      const turns = [search(environment.eval.at(0).info.question), box(0, 0, 364, 280), COMPLETE];
      const rollout = await playOne(environment, turns, { client: { kind: 'chat' } });
      expect(observations(rollout)).toEqual(['<image>', '<image>']);
      const evidence = rollout.state['evidence'] as { image: Parameters<RunImages['get']>[0]; area: unknown }[];
      expect(evidence).toMatchObject([
        { area: null, image: { width: 728, height: 560, mediaType: 'image/png' } },
        { area: [0, 0, 512, 384], image: { width: 504, height: 392 } },
      ]);
      for (const { image } of evidence) expect((await images.get(image)).length).toBeGreaterThan(1000);
    } finally {
      await environment.close();
    }
  });

  it('reads upstream’s columns from Parquet, and finds the pages of a folder of pictures by a search server', async () => {
    const path = join(folder, 'rows.parquet');
    const columnData = [
      { name: 'id', data: [7n, 8n], type: 'INT64' as const },
      { name: 'extra_info', data: [ROW.extra_info, { ...ROW.extra_info, reference_page: [2, 3] }], type: 'JSON' as const },
      { name: 'reward_model', data: [{ ground_truth: '100' }, { ground_truth: '200' }], type: 'JSON' as const },
    ];
    writeFileSync(path, Buffer.from(parquetWriteBuffer({ columnData })));
    await using server = await servePages(finds(['deck_1_2']), 'get');
    const images = join((await bundledFolder('deck-mini'))!, 'pages');
    const environment = await loadEnvironment({ dataset: path, images, search_url: server.url }, { images: new RunImages() });
    // Nobody knows the words of the pages, so the built-in reader cannot answer.
    expect(environment.roles['generator']!.default).toBe(null);
    const generator = scriptedModel({ name: 'g', replies: () => '100' });
    const rollout = await playOne(environment, [search('revenue'), COMPLETE], { models: { generator }, client: { kind: 'chat' } });
    await environment.close();
    expect(rollout).toMatchObject({ metrics: { judge: 1, ndcg: 0 }, state: { pages: ['deck_1_2'] } });
    const played = await loadEnvironment({ dataset: path, pages: written('pages.jsonl', [SIDECAR]) });
    await played.close();
    expect([...played.eval].map(({ exampleId, info }) => [exampleId, info.golden_pages])).toEqual([
      [7, ['report_1']],
      [8, ['report_2', 'report_3']],
    ]);
  });

  it.each<[string, Record<string, unknown>, RegExp]>([
    ['an unknown argument', { max_turn: 3 }, /max_turn.*max_turns/],
    ['a turn count', { max_turns: 1 }, /max_turns/],
    ['a pixel range', { shown_pixels: [9, 1] }, /shown_pixels.*two integers/],
    ['coefficients', { coefficients: { judge: -1 } }, /coefficients.*numbers of at least 0/],
    ['own rows without pages', { dataset: 'ROWS' }, /needs the words of the pages of .*rows\.jsonl\. Name a word sidecar with "pages"/],
    [
      'own rows without pictures',
      { dataset: 'ROWS', observations: 'image' },
      /needs the pictures of the pages of .*rows\.jsonl\. Name their folder with "images"/,
    ],
    ['pictures that nobody can search', { dataset: 'ROWS', images: folder }, /cannot be searched without their words/],
    [
      'a folder that does not exist',
      { images: '/nowhere/pages' },
      /^The folder of page pictures \/nowhere\/pages does not exist\. Correct "images"\.$/,
    ],
    [
      'pictures of a data set of words',
      { dataset: 'page-world', observations: 'image' },
      /^The pages of page-world are words without pictures\. Use /,
    ],
    [
      'rows whose golden pages have other names than the pages',
      { dataset: 'ROWS', pages: 'OTHER PAGES' },
      /^No golden page of .*rows\.jsonl, such as "report_\d", is in .*other-pages\.jsonl, which has pages such as "Report-1"\. Name each page FILE_PAGE/,
    ],
    ['a file that does not exist', { dataset: '/nowhere/rows.parquet', pages: 'SIDECAR' }, /\/nowhere\/rows\.parquet does not exist/],
    [
      'a row without a question',
      { dataset: 'BAD', pages: 'SIDECAR' },
      /Line 1 of .*bad\.jsonl: the column extra_info\.question must hold a question, got nothing/,
    ],
    ['an id twice', { dataset: 'TWICE', pages: 'SIDECAR' }, /another row has the id "q1"; give each row its own/],
    ['a page twice', { dataset: 'ROWS', pages: 'PAGES TWICE' }, /another line describes the page "report_1"; keep one of them/],
    ['a word without its box', { dataset: 'ROWS', pages: 'BAD WORD' }, /a word must be \[text, left, top, right, bottom, line\], got \["x",1\]/],
  ])('refuses %s in one line', async (_name, args, message) => {
    const files: Record<string, string> = {
      ROWS: written('rows.jsonl', [ROW]),
      SIDECAR: written('sidecar.jsonl', [SIDECAR]),
      BAD: written('bad.jsonl', [{ ...ROW, extra_info: { ...ROW.extra_info, question: undefined } }]),
      TWICE: written('twice.jsonl', [ROW, ROW]),
      'PAGES TWICE': written('pages-twice.jsonl', [SIDECAR, SIDECAR]),
      'OTHER PAGES': written('other-pages.jsonl', [{ ...SIDECAR, id: 'Report-1' }]),
      'BAD WORD': written('bad-word.jsonl', [{ ...SIDECAR, words: [['x', 1]] }]),
    };
    const named = Object.fromEntries(Object.entries(args).map(([key, value]) => [key, files[String(value)] ?? value]));
    const error = await loadEnvironment(named, { images: new RunImages() }).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).not.toContain('\n');
  });

  it('refuses to train on pictures of sizes that a server resizes', async () => {
    const args = { observations: 'image', align: 0, data_limit: 1 };
    await expect(loadEnvironment(args, { purpose: 'training', images: new RunImages() })).rejects.toThrow(
      /^align 0 shows sizes that the policy server resizes/,
    );
    await (await loadEnvironment(args, { images: new RunImages() })).close();
    await (await loadEnvironment({ align: 0, data_limit: 1 }, { purpose: 'training' })).close();
  });

  it('takes upstream’s variables for the coefficients, which an argument overrides', async () => {
    const load = async (args: Record<string, unknown>, env: Record<string, string>) => {
      const environment = await loadEnvironment(args, { env });
      await environment.close();
      return (environment.provenance['arguments'] as { coefficients: unknown }).coefficients;
    };
    expect(await load({}, { RM_JUDGE_COEF: '1.0', RM_NDCG_COEF: '0.0' })).toEqual({ judge: 1, ndcg: 0, format: 0 });
    expect(await load({ coefficients: { ndcg: 0.5 } }, { RM_NDCG_COEF: '0.1' })).toEqual({ judge: 0.8, ndcg: 0.5, format: 0 });
    await expect(loadEnvironment({}, { env: { RM_JUDGE_COEF: 'x' } })).rejects.toThrow('$RM_JUDGE_COEF must be a number of at least 0, got "x"');
  });
});
