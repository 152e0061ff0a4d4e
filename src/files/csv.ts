/** CSV and TSV with a header line (RFC 4180): quoted fields may hold delimiters, line breaks and doubled quotes. A row with too few or too many fields is refused, because it would shift answers. */
import { pipeline, Readable } from 'node:stream';
import { CsvError, type Options, parse } from 'csv-parse';
import { ConfigError, VfError } from '../core/errors.ts';
import { firstRepeated } from '../core/first-repeated.ts';
import { readExactJson } from '../core/read-json.ts';

type CsvFields = Readonly<Record<string, unknown>>;

export interface CsvRow {
  /** Empty fields are left out. A field that is a list or an object in JSON has its value; every other is text. */
  readonly fields: CsvFields;
  /** All columns. */
  readonly header: readonly string[];
  /** The row's last line in the file, from 1 up. */
  readonly line: number;
}

/** Bounds what one field without a closing quote can take. */
const MOST_RECORD_CHARACTERS = 2 ** 26;

/**
 * The rows, one at a time. Throws ConfigError, which names file and line.
 * @param lines without their line feeds
 * @param head the beginning of the file, in which the header line shows the delimiter
 */
export async function* csvRows(
  lines: AsyncIterable<{ readonly text: string }>,
  { path, head }: { readonly path: string; readonly head: string },
): AsyncGenerator<CsvRow, void> {
  const options: Options = {
    delimiter: delimiterOf(path, head),
    // Files that were edited on several systems mix them.
    record_delimiter: ['\r\n', '\n', '\r'],
    columns: (header: readonly string[]) => columnNames(header, path),
    info: true,
    skip_empty_lines: true,
    relax_quotes: true,
    max_record_size: MOST_RECORD_CHARACTERS,
  };
  // Errors of the source end the result.
  const parsed = pipeline(Readable.from(withLineFeeds(lines), { objectMode: false }), parse(options), () => {});
  try {
    for await (const { record, info } of parsed as AsyncIterable<{ record: Readonly<Record<string, string>>; info: { lines: number } }>)
      yield { fields: fieldsOf(record), header: Object.keys(record), line: info.lines };
  } catch (cause) {
    if (cause instanceof VfError || !(cause instanceof CsvError)) throw cause;
    throw new ConfigError(`${path} is not CSV: ${cause.message}. Correct that line, or quote its fields.`, { cause });
  }
}

async function* withLineFeeds(lines: AsyncIterable<{ readonly text: string }>): AsyncGenerator<string, void> {
  for await (const { text } of lines) yield `${text}\n`;
}

/** A tab for `.tsv`; else the most frequent of comma, semicolon and tab in the header line, as spreadsheets write in different countries. */
function delimiterOf(path: string, head: string): string {
  if (/\.tsv(\.\w+)?$/i.test(path)) return '\t';
  const [header = ''] = head.replace(/"[^"]*"/g, '').split(/\r?\n/, 1);
  const count = (delimiter: string) => header.split(delimiter).length;
  return [',', ';', '\t'].reduce((best, each) => (count(each) > count(best) ? each : best));
}

function columnNames(header: readonly string[], path: string): string[] {
  const names = header.map((name) => name.trim());
  const twice = firstRepeated(names.filter((name) => name !== ''));
  if (twice !== undefined) throw new ConfigError(`The header of ${path} names the column ${JSON.stringify(twice)} twice. Rename one.`);
  return names;
}

function fieldsOf(record: Readonly<Record<string, string>>): CsvFields {
  const fields = Object.entries(record).filter(([name, text]) => name !== '' && text.trim() !== '');
  return Object.fromEntries(fields.map(([name, text]) => [name, valueOf(text)]));
}

function valueOf(text: string): unknown {
  if (!/^\s*(?:\[.*\]|\{.*\})\s*$/s.test(text)) return text.toWellFormed();
  try {
    return readExactJson(text);
  } catch {
    // Text in brackets.
    return text.toWellFormed();
  }
}
