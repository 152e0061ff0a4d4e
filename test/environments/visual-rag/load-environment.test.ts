import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import sharp from 'sharp';
import { ConfigError, scriptedModel } from 'vf-search';
import { loadEnvironment } from 'vf-search/environments/visual-rag';
import { afterAll, describe, expect, it } from 'vitest';
import { ScriptedClient } from '../../../src/clients/scripted.ts';
import { bundledFolder, readBundledManifest } from '../../../src/data/bundled.ts';
import { RunImages } from '../../../src/files/run-images.ts';
import { assertPlayable } from '../../../src/rollouts/assert-playable.ts';
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

/** A picture of the sidecar's size. */
const PICTURE = await sharp({ create: { width: 1024, height: 768, channels: 3, background: '#ffffff' } })
  .png()
  .toBuffer();

/** A new folder with files of one picture. */
function pictures(...names: readonly string[]): string {
  const path = mkdtempSync(join(folder, 'pictures-'));
  for (const name of names) writeFileSync(join(path, name), PICTURE);
  return path;
}

/** A new folder with one broken picture. */
function withTorn(name: string, ...whole: readonly string[]): string {
  const path = pictures(...whole);
  writeFileSync(join(path, name), PICTURE.subarray(0, 20));
  return path;
}

const goldenRow = (id: string, pages: readonly number[]) => ({ ...ROW, id, extra_info: { ...ROW.extra_info, reference_page: pages } });

async function noticesOf(args: Readonly<Record<string, unknown>>, purpose: 'evaluation' | 'training' = 'evaluation'): Promise<readonly string[]> {
  const environment = await loadEnvironment(args, { images: new RunImages(), purpose });
  await environment.close();
  return environment.notices;
}

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
      expect(() =>
        assertPlayable(environment, { name: 'm', capabilities: { ...new ScriptedClient({ turns: [] }).capabilities, images: false } }),
      ).toThrow(
        /^visual-rag shows images, and m cannot see them\. Use a vision-language model behind vLLM or a chat API, or set observations to "ocr", which shows the words/,
      );
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
      {
        name: 'extra_info',
        data: [[1], [2, 3]].map((pages) => ({ ...ROW.extra_info, file_name: 'deck_1.pdf', reference_page: pages })),
        type: 'JSON' as const,
      },
      { name: 'reward_model', data: [{ ground_truth: '100' }, { ground_truth: '200' }], type: 'JSON' as const },
    ];
    writeFileSync(path, Buffer.from(parquetWriteBuffer({ columnData })));
    await using server = await servePages(finds(['deck_1_2']), 'get');
    const images = join((await bundledFolder('deck-mini'))!, 'pages');
    const environment = await loadEnvironment({ dataset: path, images, search_url: server.url }, { images: new RunImages() });
    // Nobody knows the words of the pages, so the built-in reader cannot answer, and they cannot be shown in place of pictures.
    expect(environment.withoutImages).toBeUndefined();
    expect(environment.roles['generator']!.default).toBe(null);
    const generator = scriptedModel({ name: 'g', replies: () => '100' });
    const rollout = await playOne(environment, [search('revenue'), COMPLETE], { models: { generator }, client: { kind: 'chat' } });
    await environment.close();
    expect(rollout).toMatchObject({ metrics: { judge: 1, ndcg: 0 }, state: { pages: ['deck_1_2'] } });
    const played = await loadEnvironment({ dataset: path, pages: written('pages.jsonl', [{ ...SIDECAR, id: 'deck_1_3' }]) });
    await played.close();
    expect([...played.eval].map(({ exampleId, info }) => [exampleId, info.golden_pages])).toEqual([
      [7, ['deck_1_1']],
      [8, ['deck_1_2', 'deck_1_3']],
    ]);
  });

  it.each<[string, Record<string, unknown>, RegExp]>([
    ['an unknown argument', { max_turn: 3 }, /^visual-rag has no argument "max_turn" \(did you mean max_turns\?\)\. Its arguments are dataset, /],
    ['a data set that does not exist', { dataset: 'nope' }, /^The data set "nope" does not exist\. Choose deck-mini, page-world \(bundled\), /],
    ['pages that do not exist', { pages: 'nope' }, /^The data set "nope" does not exist\. Choose deck-mini, page-world \(bundled\), /],
    ['a split that does not exist', { data_split: 'val' }, /^The data set deck-mini has no split "val"\. Choose train, test\.$/],
    ['the pages as rows', { data_split: 'pages' }, /^The data set deck-mini has no split "pages"\. Choose train, test\.$/],
    [
      'pictures smaller than any',
      { shown_pixels: [4, 783] },
      /^shown_pixels allows at most 783 pixels, but the smallest picture has 28 × 28, 784 in all, because sides are multiples of 28\. Raise/,
    ],
    ['pictures smaller than any of another unit', { shown_pixels: [4, 1023], align: 32 }, /^shown_pixels .* 32 × 32, 1024 in all/],
    [
      'pictures as text without their words',
      { dataset: 'ROWS', images: pictures('report_1.png'), observations: 'ocr' },
      /^observations "ocr" shows the words of pages, and the pictures in .+ come without words\. Name a word sidecar of .*rows\.jsonl with "pages", or leave/,
    ],
    ['a turn count', { max_turns: 1 }, /max_turns/],
    ['a pixel range', { shown_pixels: [9, 1] }, /shown_pixels.*two integers/],
    ['coefficients', { coefficients: { judge: -1 } }, /coefficients.*numbers of at least 0/],
    ['own rows without pages', { dataset: 'ROWS' }, /needs the words of the pages of .*rows\.jsonl\. Name a word sidecar with "pages"/],
    [
      'own rows without pictures',
      { dataset: 'ROWS', observations: 'image' },
      /needs the pictures of the pages of .*rows\.jsonl\. Name their folder with "images"/,
    ],
    ['pictures that nobody can search', { dataset: 'ROWS', images: pictures('report_1.png') }, /cannot be searched without their words/],
    [
      'a folder that does not exist',
      { images: '/nowhere/pages' },
      /^The folder of page pictures \/nowhere\/pages does not exist\. Correct "images"\.$/,
    ],
    [
      'a file in place of the folder',
      { images: join(pictures('a.png'), 'a.png') },
      /^The folder of page pictures .+a\.png is a file\. Correct "images"\.$/,
    ],
    [
      'pictures of another size than the words are placed on',
      { dataset: 'ROWS', pages: 'SMALL', images: pictures('report_1.png'), observations: 'image' },
      /^The picture of page "report_1" has 1024 × 768 pixels, but its words are placed on 100 × 80\. Give words and pictures of one size\.$/,
    ],
    [
      'pictures that are all torn',
      { dataset: 'ROWS', pages: 'SIDECAR', images: withTorn('report_1.png'), observations: 'image' },
      /^The picture of page "report_1" in .+ cannot be used: /,
    ],
    [
      'a folder without pictures',
      { images: pictures('a.pdf') },
      /^No page of deck-mini, such as "deck_1_1", has a picture in .+\. Name each picture PAGE\.png/,
    ],
    [
      'a folder without pictures, where nobody else knows the pages',
      { dataset: 'ROWS', images: pictures('.png', 'a.gif'), search_url: 'http://127.0.0.1:9' },
      /^The folder .+ has no pictures of pages: no file of it is named PAGE\.png, /,
    ],
    [
      'pictures whose names are other than those of the golden pages',
      { dataset: 'ROWS', images: pictures('Report-1.png'), search_url: 'http://127.0.0.1:9' },
      /^No golden page of .*rows\.jsonl, such as "report_1", is in .+, which has pages such as "Report-1"\./,
    ],
    [
      'rows without golden pages, where NDCG counts',
      { dataset: 'BARE', pages: 'SIDECAR' },
      /^No row of .*bare\.jsonl names a golden page, so that every NDCG would be 0\. List /,
    ],
    [
      'rows of documents that are not among the pages, where documents count',
      { dataset: 'ROWS', pages: 'OTHER PAGES', ndcg_level: 'document' },
      /^No golden document of .*rows\.jsonl, such as "report", is in .*other-pages\.jsonl, which has documents such as "Report-1"\./,
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
      SMALL: written('small.jsonl', [{ ...SIDECAR, width: 100, height: 80, words: [] }]),
      BAD: written('bad.jsonl', [{ ...ROW, extra_info: { ...ROW.extra_info, question: undefined } }]),
      BARE: written('bare.jsonl', [goldenRow('q1', [])]),
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

  it('notes rows whose golden pages no search can find, with their number and the first row and page', async () => {
    const dataset = written('golden.jsonl', [goldenRow('q1', [1]), goldenRow('q2', [1, 99]), goldenRow('q3', []), goldenRow('q4', [98])]);
    const sidecar = written('sidecar.jsonl', [SIDECAR]);
    expect(await noticesOf({ dataset, pages: sidecar })).toEqual([
      `Rows of ${dataset} without a golden page: 1 of 4, the first is "q3". Their NDCG is 0. List the pages in reference_page.`,
      `Rows of ${dataset} with a golden page that is not in ${sidecar}: 2 of 4, the first is "q2" with "report_99". Their NDCG stays below 1; it is 0 if all golden pages are missing. Correct file_name and reference_page, or add the pages.`,
    ]);
    // One file is both splits of a training run, which a third notice says.
    expect(await noticesOf({ dataset, pages: sidecar }, 'training')).toHaveLength(3);
    // Every page of the document counts.
    expect(await noticesOf({ dataset, pages: sidecar, ndcg_level: 'document' })).toHaveLength(1);
    const images = pictures('report_1.png', 'report_99.jpg');
    await using server = await servePages(finds(['report_1']), 'get');
    const [, byPicture] = await noticesOf({ dataset, images, search_url: server.url });
    expect(byPicture).toContain(`that is not in ${images}: 1 of 4, the first is "q4" with "report_98".`);
    expect(await noticesOf({})).toEqual([]);
  });

  it('says which arguments phase 1 does not use', async () => {
    const given = { judge_sees: 'evidence', generator_max_tokens: 64 };
    expect(await noticesOf({ phase: 1, data_limit: 1, ...given })).toEqual([
      'judge_sees changes nothing in phase 1, which asks neither generator nor judge.',
      'generator_max_tokens changes nothing in phase 1, which asks neither generator nor judge.',
    ]);
    expect(await noticesOf({ phase: 2, data_limit: 1, ...given })).toEqual([]);
  });

  it('offers every bundled data set of pages', async () => {
    const { datasets } = await readBundledManifest();
    const decks = Object.keys(datasets).filter((name) => Object.hasOwn(datasets[name]!.splits, 'pages'));
    await expect(loadEnvironment({ dataset: 'nope' })).rejects.toThrow(`Choose ${decks.join(', ')} (bundled)`);
  });

  it.each([{ shown_pixels: [4, 784] }, { shown_pixels: [4, 10], align: 0 }, { shown_pixels: [4, 16], align: 4 }])(
    'takes pixels that a picture can have {%j}',
    async (args) => {
      await expect(noticesOf({ ...args, data_limit: 1 })).resolves.toEqual([]);
    },
  );

  it('takes rows without golden pages where the judge alone counts', async () => {
    const args = { dataset: written('bare.jsonl', [goldenRow('q1', [])]), pages: written('sidecar.jsonl', [SIDECAR]) };
    expect(await noticesOf({ ...args, coefficients: { ndcg: 0 } })).toEqual([]);
    await expect(noticesOf({ ...args, coefficients: { ndcg: 0 }, phase: 1 })).rejects.toThrow(/^No row of .*names a golden page/);
  });

  it('notes pages without a picture and pages with several', async () => {
    const dataset = written('rows.jsonl', [ROW]);
    const pages = written('three.jsonl', [SIDECAR, { ...SIDECAR, id: 'report_2' }, { ...SIDECAR, id: 'deep/report_3' }]);
    const images = pictures('report_1.webp', 'report_1.PNG', 'report_1.jpg');
    mkdirSync(join(images, 'deep'));
    writeFileSync(join(images, 'deep', 'report_3.png'), PICTURE);
    expect(await noticesOf({ dataset, pages, images })).toEqual([
      `Pages of ${pages} without a picture in ${images}: 1 of 3, the first is "report_2". A rollout whose search finds one fails. Add the pictures.`,
      `Pages with several pictures in ${images}: 1. Of the first, report_1.PNG is shown, not report_1.jpg or report_1.webp. Keep one picture of each page.`,
    ]);
    expect(await noticesOf({ dataset, pages, images, observations: 'ocr' })).toEqual([]);
  });

  it('notes golden pages that cannot be shown', async () => {
    const dataset = written('golden.jsonl', [goldenRow('q1', [1]), goldenRow('q2', [1, 2])]);
    const sidecar = written('sidecar.jsonl', [SIDECAR, { ...SIDECAR, id: 'report_2' }]);
    const images = withTorn('report_2.png', 'report_1.png');
    const notices = await noticesOf({ dataset, pages: sidecar, images, observations: 'image' });
    expect(notices).toEqual([
      expect.stringMatching(
        /^Golden pages that cannot be shown: 1 of the first 2\. The picture of page "report_2" in .+ cannot be used: .+\. A rollout that finds one fails\.$/,
      ),
    ]);
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
