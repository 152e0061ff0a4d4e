/** Chooses the page that a search shows, and reads the names of pages. */

export interface ChosenPage {
  /** The page that the search shows; null if it found nothing. */
  readonly page: string | null;
  /** It was not shown before in this episode. */
  readonly isNew: boolean;
}

/** The first result that was not shown before, else the first result. */
export function nextPage(results: readonly string[], shown: readonly string[]): ChosenPage {
  const fresh = results.find((result) => !shown.includes(result));
  return fresh === undefined ? { page: results[0] ?? null, isNew: false } : { page: fresh, isNew: true };
}

/** The names of pages by their image paths: without folders and without the text after the first `.jpg`. */
export function basenames(paths: readonly string[]): string[] {
  return paths.map((path) =>
    beforeFirst(
      path
        .replace(/(?<!\/)\/+$/, '')
        .split('/')
        .at(-1)!,
      '.jpg',
    ),
  );
}

/** The name of a page by the path of its picture: as `basenames`, and without the end of other kinds of picture, which upstream's names keep. */
export function pageName(imagePath: string): string {
  return basenames([imagePath])[0]!.replace(/\.(png|jpe?g|webp)$/i, '');
}

/** The names of a row's golden pages: `{file}_{page}`, without the text after the first `.pdf` of the file's name. */
export function goldenPages({ fileName, pages }: { readonly fileName: string; readonly pages: readonly (number | string)[] }): string[] {
  return pages.map((page) => `${beforeFirst(fileName, '.pdf')}_${page}`);
}

function beforeFirst(text: string, mark: string): string {
  const at = text.indexOf(mark);
  return at === -1 ? text : text.slice(0, at);
}
