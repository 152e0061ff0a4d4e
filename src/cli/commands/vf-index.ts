/** Declares `vf-index`, which builds an index of a corpus: of words (BM25) or of vectors. Every command opens it by its folder. */
import { argument, defineCommand } from '../options/define-command.ts';
import { anyText, flag, folder, number, text, wholeNumber } from '../options/kinds.ts';
import { groups, type OptionValues } from '../options/option.ts';
import { MAX_WAIT, PASSAGE_COLUMNS } from '../options/shared-options.ts';

const NOTES = `
A corpus has one passage per row:
  {"id": "7", "contents": "\\"Title\\"\\ntext"} or
  {"id": "7", "title": "Title", "text": "text"}
in JSON Lines, JSON, CSV, TSV or Parquet; BEIR's _id is an id too. --text,
--title and --id name other columns. stdin is JSON Lines.

The index ranks like Lucene (EnglishAnalyzer, BM25), contains the passages and
takes almost no time to open. Building needs about 0.7 GB of memory per million
passages of 100 words, and 1.5 times the corpus in disk space.

With --dense every passage becomes a vector, made by a model behind any
/v1/embeddings. After Ctrl-C, a crash or kill -9 the same command continues.

--dense needs LanceDB: npm install @lancedb/lancedb@0.39.0. vf-index knows the
prefixes of E5, BGE, Qwen3-Embedding and others; --query-prefix and
--passage-prefix change them. A key is read from EMBEDDINGS_API_KEY.
docs/dense-retrieval.md says more.`;

const OPTIONS = groups({
  Index: {
    output: folder('folder to create', { letter: 'o', required: true }),
    force: flag('replace an existing index'),
    json: flag('one JSON object about the index on stdout'),
  },
  Corpus: PASSAGE_COLUMNS,
  'Words (BM25)': {
    k1: number('term-frequency saturation', { from: 0, otherwise: '0.9, as in pyserini' }),
    b: number('length normalisation', { from: 0, to: 1, otherwise: '0.4, as in pyserini' }),
  },
  Vectors: {
    dense: text('embed the passages with the model of this server; "embedded" computes the vectors in this process', { placeholder: 'URL' }),
    model: text('the model that embeds: its name on the server, or the directory of a Qwen3-Embedding', { letter: 'm', placeholder: 'MODEL' }),
    queryPrefix: anyText('text before every query', { otherwise: "the model's own" }),
    passagePrefix: anyText('text before every passage', { otherwise: "the model's own" }),
    noBm25: flag('build no BM25 index next to the vectors; the engine "hybrid" then cannot search'),
    exact: flag('compare every vector; the default up to 65,536 passages'),
    ivfPq: flag('compare only some of the vectors, by IVF-PQ; the default above 65,536 passages'),
    batchSize: wholeNumber('texts in one request', { from: 1, to: 4096, otherwise: '64' }),
    concurrency: wholeNumber('requests at a time', { from: 1, to: 1024, otherwise: '4' }),
    ...MAX_WAIT,
    writeEvery: wholeNumber('passages in memory before they are written', { from: 1, to: 1_000_000, otherwise: '16,384' }),
  },
});

export type IndexOptions = OptionValues<typeof OPTIONS>;

export const vfIndex = defineCommand({
  name: 'vf-index',
  summary: 'Builds an index of a corpus, for searches without a server: BM25, or vectors too.',
  arguments: { corpus: argument('a file of passages, also as .gz, .br or .zst; - is stdin', { completion: 'files' }) },
  options: OPTIONS,
  conflicts: [['exact', 'ivfPq']],
  examples: [
    ['vf-index wiki-18.jsonl -o wiki-18.index', 'an index of words'],
    ['vf-index handbook.csv -o handbook.index --text body --title name', 'columns of other names'],
    ['gunzip -c wiki-18.jsonl.gz | vf-index - -o wiki-18.index', 'the same from stdin'],
    [`vf-eval search-r1 -n 50 -a '{"corpus": "wiki-18.index"}'`, 'an evaluation that searches it'],
    ['vf-serve retrieve --corpus wiki-18.index', 'a server that searches it'],
    [
      'vllm serve intfloat/e5-base-v2 --runner pooling --port 8001\nvf-index wiki-18.jsonl -o wiki-18.dense -m intfloat/e5-base-v2 \\\n    --dense http://127.0.0.1:8001',
      'an index of vectors and words; then -a engine=dense or engine=hybrid searches it',
    ],
    [`vf-eval search-r1 -n 50 -a '{"engine": "hybrid", "corpus": "wiki-18.dense"}'`, 'by vectors and words'],
    [
      'vf-index passages.jsonl -o my.dense --dense embedded -m Qwen3-Embedding-0.6B/',
      'vectors without a server: the model runs in this process, on the CPU',
    ],
  ],
  notes: NOTES,
  run: async ({ arguments: { corpus }, options, given, context }) => {
    const { buildIndex } = await import('../index/build-index.ts');
    return buildIndex(corpus, { options, given }, context);
  },
});
