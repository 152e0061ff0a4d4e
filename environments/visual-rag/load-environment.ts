/** Builds the environment from its arguments. Rows are loaded only here. */
import { ConfigError, type LoadContext } from 'vf-search';
import { bundledFolder, type ImageStore, loadRecords, type RowsSource, splitNotices } from 'vf-search/environment-kit';
import { argumentsFor, type VisualArguments } from './arguments.ts';
import { type DocumentPage, documentPages } from './documents.ts';
import { facts } from './facts.ts';
import { goldenPageNotices, pictureNotices, unshownNotices } from './check-pages.ts';
import { PageSource } from './page-source.ts';
import { PictureFiles } from './picture-files.ts';
import { picturesFolder } from './pictures-folder.ts';
import { openSearch } from './open-search.ts';
import { Pictures } from './pictures.ts';
import { toVisualRow, type VisualRow } from './rows.ts';
import { VisualRagEnv } from './visual-rag-env.ts';

/** The commits of the systems that this environment reproduces. */
const UPSTREAM = 'eoeldroal/DDAI_cleaned@dcd0c43, Alibaba-NLP/VRAG@24f8d05';
/** The split of a bundled deck that holds its pages. */
const PAGES_SPLIT = 'pages';

/** Throws ConfigError for unknown or unusable arguments; the README lists the arguments. */
export async function loadEnvironment(
  args: Readonly<Record<string, unknown>> = {},
  { env = process.env, purpose = 'evaluation', signal, images, note }: Partial<LoadContext> = {},
): Promise<VisualRagEnv> {
  const parsed = argumentsFor(purpose, args, env);
  const { dataset, maxResponseLength, named } = parsed;
  const common = { env, ...(signal && { signal }) };
  const test = await loadSplit(parsed, parsed.dataSplit ?? 'test', common);
  const train = purpose === 'training' ? await loadSplit(parsed, 'train', common) : null;
  const sidecar = await loadSidecar(parsed, common);
  const folder = parsed.observations === 'ocr' ? null : await picturesFolder(parsed);
  const pages = new PageSource({ sidecar: sidecar?.pages ?? null, pictures: folder === null ? null : await openPictures(folder, images) });
  const notices = await pageNotices(parsed, { splits: train === null ? [test] : [test, train], sidecar, folder, pages });
  const retriever = await openSearch(parsed, sidecar?.pages ?? null, { ...common, ...(note && { note }) });
  try {
    return new VisualRagEnv({
      ...parsed,
      name: dataset,
      trains: purpose === 'training',
      rows: test.rows,
      ...(train === null ? {} : { trainRows: train.rows }),
      pages,
      retriever,
      ...(images === undefined ? {} : { images }),
      limits: { responseTokens: maxResponseLength },
      notices: [
        ...notices,
        ...parsed.idle.map((name) => `${name} changes nothing in phase 1, which asks neither generator nor judge.`),
        ...splitNotices([test.source], parsed.dataSplit ?? 'test', train === null ? [] : [train.source]),
      ],
      provenance: {
        upstream: UPSTREAM,
        sources: [test.source, ...(train === null ? [] : [train.source]), ...(sidecar === null ? [] : [sidecar.source])],
        retriever: retriever.name,
        arguments: named,
      },
    });
  } catch (error) {
    await retriever.close();
    throw error;
  }
}

type Common = { readonly env: NonNullable<LoadContext['env']>; readonly signal?: AbortSignal };

interface Sidecar {
  readonly pages: ReadonlyMap<string, DocumentPage>;
  readonly source: RowsSource;
}

/** The words of the pages; null for a data set of the user's own that has only pictures. */
async function loadSidecar({ dataset, pages, imagesFolder, observations }: VisualArguments, common: Common): Promise<Sidecar | null> {
  if (pages === null && (await bundledFolder(dataset)) === null) {
    if (observations === 'image') return null;
    if (imagesFolder !== null)
      throw new ConfigError(
        `observations "ocr" shows the words of pages, and the pictures in ${imagesFolder} come without words. Name a word sidecar of ${dataset} with "pages", or leave observations out to show the pictures to a vision model.`,
      );
    throw new ConfigError(
      `visual-rag needs the words of the pages of ${dataset}. Name a word sidecar with "pages", or a folder of pictures with "images" for a vision model.`,
    );
  }
  const { records, source } = await loadRecords({ dataset: pages ?? dataset, split: PAGES_SPLIT, offers: facts.dataSets, ...common });
  return { pages: documentPages(records), source };
}

interface Loaded {
  readonly splits: readonly LoadedSplit[];
  readonly sidecar: Sidecar | null;
  /** The folder of the pictures; null if none are shown. */
  readonly folder: string | null;
  readonly pages: PageSource;
}

/** Notices about rows, sidecar and pictures that do not match. Throws ConfigError if nothing matches. */
async function pageNotices(
  { dataset, pages, phase, coefficients, ndcgLevel: level }: VisualArguments,
  { splits, sidecar, folder, pages: source }: Loaded,
): Promise<string[]> {
  const words = sidecar === null ? null : { pages: new Set(sidecar.pages.keys()), name: pages ?? dataset };
  const files = folder === null ? null : await PictureFiles.open(folder);
  const pictures = files === null ? [] : await pictureNotices(files, words);
  const known = words ?? (files === null ? null : { pages: new Set(files.pages), name: files.folder });
  const counts = phase === 1 || coefficients.ndcg > 0;
  const golden = splits.flatMap(({ rows }) => goldenPageNotices(rows, known, { dataset, level, counts }));
  const unshown = files === null ? [] : await unshownNotices(splits[0]!.rows, { pages: source, files, known: words });
  // If one file is both splits, each notice appears once.
  return [...new Set([...golden, ...pictures, ...unshown])];
}

/** The pictures of the pages, which the policy sees. */
async function openPictures(folder: string, store: ImageStore | undefined): Promise<Pictures> {
  if (store === undefined) throw new ConfigError('visual-rag needs a store for the pictures that it shows. Pass one to loadEnvironment as images.');
  return Pictures.open(folder, store);
}

interface LoadedSplit {
  readonly rows: readonly VisualRow[];
  readonly source: RowsSource;
}

async function loadSplit({ dataset, dataLimit, observations }: VisualArguments, split: string, common: Common): Promise<LoadedSplit> {
  const { records, source } = await loadRecords({
    dataset,
    split,
    offers: facts.dataSets,
    foreignSplits: [PAGES_SPLIT],
    ...(dataLimit === null ? {} : { limit: dataLimit }),
    ...common,
  });
  const rows = records.map(({ fields, place }) => toVisualRow(fields, place, observations));
  const seen = new Set<string>();
  for (const [i, { exampleId }] of rows.entries()) {
    if (seen.has(String(exampleId)))
      throw new ConfigError(`${records[i]!.place}: another row has the id ${JSON.stringify(exampleId)}; give each row its own`);
    seen.add(String(exampleId));
  }
  return { rows, source };
}
