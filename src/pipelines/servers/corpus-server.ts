/** The server `corpus` of UltraRAG: text, Markdown and files of rows into passages of bounded length, in the format that vf-index reads. */
import { dirname, extname, basename } from 'node:path';
import { replaceFile } from '../../files/json-lines.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { RECORD_FILE, readRecords } from '../../files/records.ts';
import { readUserText } from '../../files/user-text.ts';
import type { KeySchema } from '../../schemas/config-keys.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { parsePassage } from '../../schemas/passage-row.ts';
import { PipelineFileError } from '../pipeline-error.ts';
import type { PipelineServer } from '../pipeline-server.ts';
import { type ChunkStrategy, chunkText } from './chunk-text.ts';
import type { ToolsVersion } from './tools-version.ts';
import { systemText } from '../../files/system-text.ts';

const TEXT_FILE = /\.(?:txt|md)$/i;
const path = (standard: string): KeySchema => ({ type: 'string', minLength: 1, default: standard });
const size: KeySchema = { type: 'integer', minimum: 1, default: 256 };
const strategy: KeySchema = { type: 'string', enum: ['word', 'sentence'], default: 'sentence' };

const PARAMETERS: Readonly<Record<ToolsVersion, Readonly<Record<string, KeySchema>>>> = {
  '2.0': { file_path: path('data/corpus.txt'), chunk_strategy: strategy, chunk_size: size, output_path: path('output/corpus/chunks.jsonl') },
  '3.0': {
    parse_file_path: path('data/corpus.txt'),
    text_corpus_save_path: path('corpora/text.jsonl'),
    raw_chunk_path: path('corpora/text.jsonl'),
    chunk_path: path('corpora/chunks.jsonl'),
    chunk_backend: strategy,
    chunk_size: size,
    use_title: { type: 'boolean', default: false },
  },
};

/** A document, or a passage of one. */
interface Document {
  readonly title: string;
  readonly contents: string;
}

export function corpusServer(version: ToolsVersion): PipelineServer {
  const tools: Readonly<Record<ToolsVersion, PipelineServer['tools']>> = {
    '2.0': {
      parse_documents: {
        io: 'file_path->raw_data',
        description: 'the text of a .txt or .md file, or of a file of rows',
        check: async ({ file_path }) => assertType(String(file_path)),
        run: async ({ file_path }, { resolve }) => ({
          raw_data: (await readDocuments(resolve(String(file_path)))).map(({ contents }) => contents).join('\n'),
        }),
      },
      chunk_documents: {
        io: 'chunk_strategy,chunk_size,raw_data,output_path->status',
        description: 'passages of at most chunk_size words, into a .jsonl file for vf-index',
        arguments: { raw_data: { type: 'string' } },
        run: async ({ chunk_strategy, chunk_size, raw_data, output_path }) => {
          const chunks = chunkText(raw_data as string, { strategy: chunk_strategy as ChunkStrategy, words: chunk_size as number });
          await writeDocuments(
            String(output_path),
            chunks.map((contents) => ({ title: '', contents })),
          );
          return { status: `${chunks.length} passages in ${String(output_path)}` };
        },
      },
    },
    '3.0': {
      build_text_corpus: {
        io: 'parse_file_path,text_corpus_save_path->None',
        description: 'a .txt or .md file, or a file of rows, as a .jsonl file of documents',
        check: async ({ parse_file_path }) => assertType(String(parse_file_path)),
        run: async ({ parse_file_path, text_corpus_save_path }, { resolve }) => {
          await writeDocuments(String(text_corpus_save_path), await readDocuments(resolve(String(parse_file_path))));
          return {};
        },
      },
      chunk_documents: {
        io: 'raw_chunk_path,chunk_backend,chunk_size,chunk_path,use_title->None',
        description: 'documents into passages of at most chunk_size words, for vf-index',
        run: async ({ raw_chunk_path, chunk_backend, chunk_size, chunk_path, use_title }, { resolve }) => {
          const documents = await readDocuments(resolve(String(raw_chunk_path)));
          const chunks = documents.flatMap(({ title, contents }) =>
            chunkText(contents, { strategy: chunk_backend as ChunkStrategy, words: chunk_size as number }).map((chunk) => ({
              title: use_title === true ? title : '',
              contents: chunk,
            })),
          );
          await writeDocuments(String(chunk_path), chunks);
          return {};
        },
      },
    },
  };
  return { parameters: PARAMETERS[version], tools: tools[version] };
}

function assertType(file: string): void {
  if (TEXT_FILE.test(file) || RECORD_FILE.test(file)) return;
  throw new PipelineFileError(`The document ${file} must be one of .txt, .md, .jsonl, .json, .csv, .tsv, .parquet; convert it first`, {
    fault: 'file',
  });
}

async function readDocuments(file: string): Promise<readonly Document[]> {
  assertType(file);
  try {
    if (!RECORD_FILE.test(file)) return [{ title: basename(file, extname(file)), contents: await readUserText(file) }];
    const documents: Document[] = [];
    for await (const { value, place } of readRecords(file)) {
      const parsed = parsePassage(value);
      if (!parsed.ok) throw new PipelineFileError(`${place} ${parsed.problem}`, { fault: 'file' });
      // A title next to contents is that of the document.
      const { title } = fieldsOf(value);
      documents.push({ title: parsed.row.title ?? (typeof title === 'string' ? title : ''), contents: parsed.row.text });
    }
    return documents;
  } catch (cause) {
    if (cause instanceof PipelineFileError) throw cause;
    throw new PipelineFileError(`Cannot read the document ${file}: ${systemText(cause)}`, { fault: 'file', cause });
  }
}

/** One `{"id", "contents"}` per line; a title is the first line of the contents. */
async function writeDocuments(file: string, documents: readonly Document[]): Promise<void> {
  makeFolder(dirname(file));
  await replaceFile(file, async (write) => {
    for (const [i, { title, contents }] of documents.entries()) {
      await write(Buffer.from(`${JSON.stringify({ id: String(i), contents: title === '' ? contents : `"${title}"\n${contents}` })}\n`, 'utf8'));
    }
  });
}
