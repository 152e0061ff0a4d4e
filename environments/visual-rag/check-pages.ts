/**
 * Compares rows, word sidecar and picture folder before a run: data that does not match at all is refused, and a partial match is a notice, because upstream's data has such
 * rows too. If only a search server knows the pages, golden pages cannot be checked.
 */
import { ConfigError } from 'vf-search';
import { thrownText } from 'vf-search/environment-kit';
import { documentOf } from 'vf-search/metrics/document-of';
import type { PageSource } from './page-source.ts';
import type { PictureFiles } from './picture-files.ts';
import type { VisualRow } from './rows.ts';

/** The number of golden pages that are opened before a run. A fault of the whole folder shows on these. */
const OPENED = 16;

/** All pages that a search can find. */
export interface KnownPages {
  readonly pages: ReadonlySet<string>;
  /** The file or folder that has them, for messages. */
  readonly name: string;
}

export interface GoldenOptions {
  readonly dataset: string;
  readonly level: 'page' | 'document';
  /** The reward depends on NDCG. */
  readonly counts: boolean;
}

/**
 * Notices about golden pages that no search can find.
 * @param known null if only a server knows them
 * @throws ConfigError if no row has a golden page that can be found: every NDCG would be 0
 */
export function goldenPageNotices(rows: readonly VisualRow[], known: KnownPages | null, { dataset, level, counts }: GoldenOptions): string[] {
  const bare = rows.filter(({ info }) => info.golden_pages.length === 0);
  if (bare.length === rows.length) {
    if (!counts) return [];
    throw new ConfigError(
      `No row of ${dataset} names a golden page, so that every NDCG would be 0. List the numbers of the pages in reference_page, or leave NDCG out of the reward with phase 2 and coefficients {"ndcg": 0}.`,
    );
  }
  const notices =
    bare.length === 0
      ? []
      : [`Rows of ${dataset} without a golden page: ${share(bare, rows)} ${idOf(bare[0]!)}. Their NDCG is 0. List the pages in reference_page.`];
  return known === null ? notices : [...notices, ...lostPages(rows, known, { dataset, level })];
}

function lostPages(rows: readonly VisualRow[], known: KnownPages, { dataset, level }: Pick<GoldenOptions, 'dataset' | 'level'>): string[] {
  const named = level === 'document' ? documentOf : (page: string) => page;
  const findable = new Set([...known.pages].map(named));
  const lost = rows.flatMap((row) => {
    const page = row.info.golden_pages.find((golden) => !findable.has(named(golden)));
    return page === undefined ? [] : [{ row, page: JSON.stringify(named(page)) }];
  });
  const [first] = lost;
  if (first === undefined) return [];
  if (!rows.some(({ info }) => info.golden_pages.some((golden) => findable.has(named(golden)))))
    throw new ConfigError(
      `No golden ${level} of ${dataset}, such as ${first.page}, is in ${known.name}, which has ${level}s such as ${JSON.stringify([...findable][0])}. Name each page FILE_PAGE: file_name without .pdf, then a number of reference_page.`,
    );
  return [
    `Rows of ${dataset} with a golden ${level} that is not in ${known.name}: ${share(lost, rows)} ${idOf(first.row)} with ${first.page}. ` +
      `Their NDCG stays below 1; it is 0 if all golden ${level}s are missing. Correct file_name and reference_page, or add the ${level}s.`,
  ];
}

/**
 * Notices about pages without a picture and pages with several.
 * @param sidecar the pages that a search can find; null if only a server knows them
 * @throws ConfigError if no page has a picture
 */
export async function pictureNotices(files: PictureFiles, sidecar: KnownPages | null): Promise<string[]> {
  const pictures = files.byPage;
  if (sidecar === null && pictures.size === 0)
    throw new ConfigError(
      `The folder ${files.folder} has no pictures of pages: no file of it is named PAGE.png, .jpg, .jpeg or .webp. Correct "images".`,
    );
  const blank = sidecar === null ? [] : await files.without(sidecar.pages);
  if (sidecar !== null && blank.length === sidecar.pages.size)
    throw new ConfigError(
      `No page of ${sidecar.name}, such as ${JSON.stringify(blank[0])}, has a picture in ${files.folder}. Name each picture PAGE.png, .jpg, .jpeg or .webp, or correct "images".`,
    );
  const doubled = [...pictures.values()].filter((names) => names.length > 1);
  const [several] = doubled;
  const notices: string[] = [];
  if (blank.length > 0)
    notices.push(
      `Pages of ${sidecar!.name} without a picture in ${files.folder}: ${share(blank, [...sidecar!.pages])} ${JSON.stringify(blank[0])}. A rollout whose search finds one fails. Add the pictures.`,
    );
  if (several !== undefined)
    notices.push(
      `Pages with several pictures in ${files.folder}: ${doubled.length}. Of the first, ${several[0]} is shown, not ${several.slice(1).join(' or ')}. Keep one picture of each page.`,
    );
  return notices;
}

/**
 * A notice if pictures of golden pages cannot be shown. Opens only the first pages that have a picture.
 * @throws ConfigError if none of them can be shown
 */
export async function unshownNotices(
  rows: readonly VisualRow[],
  { pages, files, known }: { readonly pages: PageSource; readonly files: PictureFiles; readonly known: KnownPages | null },
): Promise<string[]> {
  const golden = [...new Set(rows.flatMap(({ info }) => info.golden_pages))].filter((page) => known === null || known.pages.has(page));
  const first = golden.slice(0, OPENED);
  const lacking = new Set(await files.without(first));
  const { signal } = new AbortController();
  const opened = await Promise.allSettled(first.filter((page) => !lacking.has(page)).map((page) => pages.page(page, signal)));
  const failed = opened.filter((one) => one.status === 'rejected');
  if (failed.length === 0) return [];
  const why = thrownText(failed[0]!.reason);
  if (failed.length === opened.length)
    throw new ConfigError(failed.length === 1 ? why : `None of the first ${opened.length} golden pages can be shown. ${why}`, {
      cause: failed[0]!.reason,
    });
  return [`Golden pages that cannot be shown: ${failed.length} of the first ${opened.length}. ${why} A rollout that finds one fails.`];
}

function share(some: readonly unknown[], all: readonly unknown[]): string {
  return `${some.length} of ${all.length}, the first is`;
}

function idOf({ exampleId }: VisualRow): string {
  return JSON.stringify(exampleId);
}
