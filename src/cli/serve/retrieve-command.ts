/** Declares `vf-serve retrieve`. */
import { isEngineModule } from '../../registry/open-engine-module.ts';
import { RETRIEVAL_ENGINES } from '../../registry/open-retriever.ts';
import { defineCommand } from '../options/define-command.ts';
import { flag, number, oneOf, text, wholeNumber } from '../options/kinds.ts';
import { groups, type OptionValues } from '../options/option.ts';
import { LISTENING, MAX_WAIT, PASSAGE_COLUMNS, VERBOSE } from '../options/shared-options.ts';

const NOTES = `
Sources of passages (one of them):
  --corpus nq-mini            8,346 Wikipedia passages, bundled (the default)
  --corpus fact-world         a small invented world, for tests
  --corpus passages.jsonl     your own, indexed in memory; one passage per line:
                              {"id": "...", "contents": "title\\ntext"};
                              also .json, .csv, .tsv and .parquet, and packed:
                              .jsonl.gz, .jsonl.br and .jsonl.zst
  --corpus my-index/          an index built by vf-index
  --dense --corpus my-index/  its vectors, if it was built with --dense
  --engine hybrid --corpus my-index/
                              its vectors and BM25, fused by their ranks
  --engine serper             Google through serper.dev; needs SERPER_API_KEY
  --engine google             Google's Custom Search API; needs GOOGLE_API_KEY
                              and GOOGLE_CSE_ID
  --engine searxng            a SearXNG server of yours; needs SEARXNG_URL
                              All of them in the environment or in ./.env
  --engine ./my-engine.ts     a module of yours that exports createRetriever
  --url http://host/retrieve  another retrieval server, with a cache in front
  --engine qdrant --url http://host:6333 --collection wiki-18
                              a collection of Qdrant; --embeddings-model and
                              --embeddings-url embed the queries
  --engine opensearch --url http://host:9200 --collection wiki-18
                              an index of OpenSearch, by words; with
                              --embeddings-model by vectors too

The protocol is Search-R1's, so its trainer and its infer.py can use this server
unchanged:
  curl -s http://127.0.0.1:8000/retrieve \\
      -H 'content-type: application/json' \\
      -d '{"queries": ["who wrote hamlet"], "topk": 3, "return_scores": true}'
  vf-eval search-r1 -a '{"retriever_url": "http://127.0.0.1:8000/retrieve"}'
POST /search speaks UltraRAG's: {"query_list": [...], "top_k": 3} to
{"ret_psg": [[...]]}, for vf-pipeline and UltraRAG itself.

GET /health answers while the server is up. Ctrl-C stops the server after it has
answered pending requests.`;

const OPTIONS = groups({
  Passages: {
    corpus: text('passages to search: a name or a path', { placeholder: 'CORPUS', otherwise: '"nq-mini"', completion: 'files' }),
    ...PASSAGE_COLUMNS,
    engine: oneOf(RETRIEVAL_ENGINES, 'search engine, or a module of yours: ./my-engine.ts', {
      or: { accepts: isEngineModule, means: 'the path of a module' },
      otherwise: 'follows from the source',
    }),
    dense: flag('the same as --engine dense: search the vectors of an index made by vf-index --dense'),
    url: text('a retrieval server to forward requests to', { placeholder: 'URL' }),
    collection: text('collection of Qdrant, index of OpenSearch', { placeholder: 'NAME' }),
    embeddingsModel: text('model that embeds the queries of Qdrant and OpenSearch', { placeholder: 'NAME' }),
    embeddingsUrl: text('server that embeds the queries', { placeholder: 'URL', otherwise: 'EMBEDDINGS_URL, else the one of the index' }),
    perSecond: number('searches that may start in a second at a web engine or server; further ones wait', { above: 0, otherwise: 'no limit' }),
    timeout: number('seconds for one attempt at a search', { above: 0, otherwise: "the engine's" }),
    retries: wholeNumber('attempts beyond the first', { from: 0, to: 100, otherwise: '4' }),
    ...MAX_WAIT,
  },
  Server: {
    topk: wholeNumber('passages per query if a request does not say', { from: 1, to: 1000, default: 3 }),
    ...LISTENING,
    maxPending: wholeNumber('pending requests; beyond it the answer is 503', { from: 1, to: 1_000_000, default: 1024 }),
    ...VERBOSE,
  },
});

export type RetrieveOptions = OptionValues<typeof OPTIONS>;

export const retrieveCommand = defineCommand({
  name: 'vf-serve retrieve',
  summary: 'Answers POST /retrieve and /search: BM25 or vectors over a corpus, a web engine, or another server.',
  examples: [
    ['vf-serve retrieve --port 8080', 'searches the bundled passages by BM25'],
    ['vf-serve retrieve --corpus wiki-18.index --topk 5', 'searches an index made by vf-index'],
  ],
  options: OPTIONS,
  notes: NOTES,
  run: async ({ options, context }) => (await import('./serve-retrieval.ts')).serveRetrieval(options, context),
});
