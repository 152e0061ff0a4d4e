/** Opens the file of a corpus as JSON Lines of passages. Other formats, and columns with other names, are rewritten on the way. */
import { Readable } from 'node:stream';
import { ConfigError } from '../../core/errors.ts';
import { streamUnpacked, isPacked } from '../../files/packed-file.ts';
import { formatOf, readRecords } from '../../files/records.ts';
import { PASSAGE_ADVICE } from './corpus-lines.ts';
import { parsePassage, type PassageColumns, passageContents } from '../../schemas/passage-row.ts';

const CHUNK_BYTES = 2 ** 20;

export interface OpenedCorpus {
  /** `{"id", "contents"}` or `{"id", "title", "text"}` in each line. Read it at once, because an error of an unread stream ends the process. */
  readonly stream: Readable;
  /** Tells whether these are the bytes of the file, so that a line can be read again by its offset. */
  readonly isFile: boolean;
}

export interface OpenCorpusOptions {
  /** Columns that have other names than the known ones. @default none */
  readonly columns?: PassageColumns;
  /** A stream of JSON Lines, which `path` only names. @default the file */
  readonly stream?: Readable;
}

/** Rejects with ConfigError for a file that cannot be opened. */
export async function openCorpus(path: string, { columns = {}, stream }: OpenCorpusOptions = {}): Promise<OpenedCorpus> {
  const isNamed = Object.keys(columns).length > 0;
  if (stream !== undefined) return { stream: isNamed ? Readable.from(passageLines(path, { columns, stream })) : stream, isFile: false };
  const { format, encoding } = await formatOf(path, { remedy: 'name a corpus' });
  if (format !== 'jsonl' || encoding !== 'utf-8' || isNamed) return { stream: Readable.from(passageLines(path, { columns })), isFile: false };
  return { stream: await streamUnpacked(path, { pieceBytes: CHUNK_BYTES }), isFile: !isPacked(path) };
}

/** Pieces of about a megabyte, each of whole lines. */
async function* passageLines(path: string, { columns = {}, ...source }: OpenCorpusOptions): AsyncGenerator<Buffer, void> {
  let lines: string[] = [];
  let length = 0;
  for await (const { value, place, header } of readRecords(path, source)) {
    const parsed = parsePassage(value, columns, header);
    if (!parsed.ok) throw new ConfigError(`${place} ${parsed.problem}; ${PASSAGE_ADVICE}`);
    const { id, ...passage } = parsed.row;
    const line = `${JSON.stringify({ ...(id !== null && { id }), contents: passageContents(passage) })}\n`;
    lines.push(line);
    length += line.length;
    if (length < CHUNK_BYTES) continue;
    yield Buffer.from(lines.join(''), 'utf8');
    [lines, length] = [[], 0];
  }
  if (lines.length > 0) yield Buffer.from(lines.join(''), 'utf8');
}
