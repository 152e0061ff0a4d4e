/** Opens what finds the pages: BM25 over their words, or the server at `search_url`. */
import { ConfigError, type LoadContext, openPageRetriever, openRetriever, type PagePictures, type Retriever } from 'vf-search';
import type { VisualArguments } from './arguments.ts';
import { type DocumentPage, pagePassages } from './documents.ts';
import { pageName } from './pages.ts';
import { PictureFiles } from './picture-files.ts';
import { picturesFolder } from './pictures-folder.ts';

/** `words`: of the pages; null where they are not known. Throws ConfigError for arguments that do not fit, RetrievalError if the server does not answer. */
export async function openSearch(
  { dataset, imagesFolder, searchUrl, searchForm, searchModel, searchIndex }: VisualArguments,
  words: ReadonlyMap<string, DocumentPage> | null,
  { env, signal }: { readonly env: NonNullable<LoadContext['env']>; readonly signal?: AbortSignal },
): Promise<Retriever> {
  const common = { env, ...(signal && { signal }) };
  if (searchUrl !== null)
    return openPageRetriever({
      url: searchUrl,
      form: searchForm,
      model: searchModel,
      indexFolder: searchIndex,
      pageName,
      pictures: async () => pagePictures(await PictureFiles.open(await picturesFolder({ dataset, imagesFolder })), words),
      ...common,
    });
  if (words !== null) return openRetriever({ passages: pagePassages(words), name: `bm25 ${dataset} pages`, ...common });
  throw new ConfigError(
    `The pages of ${dataset} cannot be searched without their words. Name a search server with "search_url", or a word sidecar with "pages".`,
  );
}

/** The pictures of the pages of the data set, or of every page in the folder where it has no list of pages. */
async function pagePictures(files: PictureFiles, words: ReadonlyMap<string, DocumentPage> | null): Promise<PagePictures> {
  return { pages: words === null ? await files.pages() : [...words.keys()], picture: (page) => files.read(page) };
}
