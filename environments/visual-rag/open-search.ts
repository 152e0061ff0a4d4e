/** Opens the search for pages: BM25 over their words, the server at `search_url`, or an engine of the user's own, whose passages' ids are names of pages. */
import { ConfigError, type LoadContext, openRetriever, type Retriever } from 'vf-search';
import { openPageRetriever, type OpenPageRetrieverOptions, type PagePictures } from 'vf-search/environment-kit';
import type { VisualArguments } from './arguments.ts';
import { type DocumentPage, pagePassages } from './documents.ts';
import { pageName } from './pages.ts';
import { PictureFiles } from './picture-files.ts';
import { picturesFolder } from './pictures-folder.ts';

/** Milliseconds between two progress lines; the same as vf-index has when stderr is a file. */
const NOTE_EVERY_MS = 5000;

type VectorProgress = Parameters<NonNullable<OpenPageRetrieverOptions['onProgress']>>[0];

/** `words`: the words of the pages; null if they are not known. Throws ConfigError for arguments that do not fit, RetrievalError if the server does not answer. */
export async function openSearch(
  { dataset, imagesFolder, searchUrl, searchForm, searchModel, searchIndex, engine, pace }: VisualArguments,
  words: ReadonlyMap<string, DocumentPage> | null,
  { env, signal, note = () => {} }: Pick<LoadContext, 'env'> & Partial<Pick<LoadContext, 'signal' | 'note'>>,
): Promise<Retriever> {
  const common = { env, ...(signal && { signal }) };
  if (engine !== null) return openRetriever({ engine, ...pace, ...common });
  if (searchUrl !== null)
    return openPageRetriever({
      ...pace,
      url: searchUrl,
      form: searchForm,
      model: searchModel,
      indexFolder: searchIndex,
      pageName,
      pictures: async () => pagePictures(await PictureFiles.open(await picturesFolder({ dataset, imagesFolder })), words),
      onProgress: vectorNotes(note),
      ...common,
    });
  if (words !== null) return openRetriever({ passages: pagePassages(words), name: `bm25 ${dataset} pages`, ...common });
  throw new ConfigError(
    `The pages of ${dataset} cannot be searched without their words. Name a search server with "search_url", a module with "engine", or a word sidecar with "pages".`,
  );
}

/** Notes the first page whose vectors are made, then the progress every few seconds, then the end: a large collection takes hours. Silent if all are on disk. */
function vectorNotes(note: LoadContext['note']): (progress: VectorProgress) => void {
  const startedAt = performance.now();
  let notedAt: number | null = null;
  return ({ pages, of, made }) => {
    const now = performance.now();
    const isLast = pages === of;
    if (made === 0 || (!isLast && notedAt !== null && now - notedAt < NOTE_EVERY_MS)) return;
    if (isLast) return note(`vectors of ${of} pages are ready; ${made} were made now`);
    const minutes = Math.ceil((((now - startedAt) / made) * (of - pages)) / 60_000);
    note(notedAt === null ? `making vectors of pages, ${of} in all` : `vectors of ${pages} of ${of} pages, about ${minutes} min left`);
    notedAt = now;
  };
}

/** The pictures of the pages of the data set, or, if it has no list of pages, of every page in the folder. */
function pagePictures(files: PictureFiles, words: ReadonlyMap<string, DocumentPage> | null): PagePictures {
  return { pages: words === null ? files.pages : [...words.keys()], picture: (page) => files.read(page) };
}
