/** The server `retriever` of UltraRAG: passages for every query, from a search server, from BM25 over a corpus, or from the web. */
import type { Retriever } from '../../retrieval/retriever.ts';
import type { KeySchema } from '../../schemas/config-keys.ts';
import { PipelineFileError } from '../pipeline-error.ts';
import type { CallContext, PipelineServer, PipelineTool, Values } from '../pipeline-server.ts';
import type { SearchService, ServiceOpeners } from '../service-openers.ts';
import { texts } from './tool-kit.ts';
import type { ToolsVersion } from './tools-version.ts';

const SHARED: Readonly<Record<string, KeySchema>> = {
  retriever_url: { type: 'string', minLength: 1, default: 'http://localhost:8080' },
  top_k: { type: 'integer', minimum: 1, default: 5 },
  corpus_path: { type: 'string', minLength: 1, default: 'nq-mini' },
};

const PARAMETERS: Readonly<Record<ToolsVersion, Readonly<Record<string, KeySchema>>>> = {
  '2.0': { ...SHARED, query_instruction: { type: 'string', default: 'Query: ' } },
  '3.0': { ...SHARED, query_instruction: { type: 'string', default: '' }, backend: { type: 'string', default: 'bm25' } },
};

export function retrieverServer(version: ToolsVersion, openers: ServiceOpeners): PipelineServer {
  const retrievers = new Map<string, Promise<Retriever>>();
  const open = (service: SearchService) => {
    const key = JSON.stringify(service);
    const retriever = retrievers.get(key) ?? openers.search(service);
    retrievers.set(key, retriever);
    return retriever;
  };
  return {
    parameters: PARAMETERS[version],
    tools: { ...toolsOfBoth(open), ...(version === '3.0' && toolsOf3(open)) },
    close: async () => {
      for (const retriever of retrievers.values()) await retriever.then((opened) => opened.close()).catch(() => {});
    },
  };
}

type Open = (service: SearchService) => Promise<Retriever>;

function toolsOfBoth(open: Open): Readonly<Record<string, PipelineTool>> {
  const corpus = ({ corpus_path }: Values, { resolve }: Pick<CallContext, 'resolve'>): SearchService => ({ corpus: resolve(String(corpus_path)) });
  return {
    retriever_deploy_search: {
      io: 'retriever_url,query_list=q_ls,top_k,query_instruction->ret_psg',
      description: "passages from a server: UltraRAG's /search, or Search-R1's if the URL ends in /retrieve",
      arguments: { query_list: texts },
      run: async ({ query_list, retriever_url, query_instruction, top_k }, context) => {
        const queries = (query_list as readonly string[]).map((query) => `${String(query_instruction)}${query}`);
        return passages(await open({ url: withScheme(String(retriever_url)) }), queries, top_k, context);
      },
    },
    retriever_search: {
      io: 'query_list=q_ls,top_k,corpus_path->ret_psg',
      description: 'passages by BM25, from nq-mini, a .jsonl file or an index made by vf-index',
      arguments: { query_list: texts },
      check: async (parameters, context) => void (await open(corpus(parameters, context))),
      run: async (args, context) => passages(await open(corpus(args, context)), args['query_list'], args['top_k'], context),
    },
    retriever_websearch: {
      io: 'query_list=q_ls,top_k->ret_psg',
      description: 'passages from Google through serper.dev (SERPER_API_KEY)',
      arguments: { query_list: texts },
      check: async () => void (await open({ web: true })),
      run: async ({ query_list, top_k }, context) => passages(await open({ web: true }), query_list, top_k, context),
    },
  };
}

/** 3.0 opens its corpus in a separate step, and has another name for BM25. */
function toolsOf3(open: Open): Readonly<Record<string, PipelineTool>> {
  const { retriever_search: search } = toolsOfBoth(open);
  return {
    retriever_init: {
      io: 'corpus_path,backend->None',
      description: 'opens the corpus; backend bm25',
      check: async ({ backend }) => {
        if (backend === 'bm25') return;
        const message = `retriever.backend is ${JSON.stringify(backend)}, but only bm25 is supported; set retriever.backend=bm25, or search a server with retriever_deploy_search`;
        throw new PipelineFileError(message, { fault: 'parameter' });
      },
      run: async () => ({}),
    },
    bm25_search: search!,
  };
}

async function passages(retriever: Retriever, queries: unknown, topk: unknown, { signal }: CallContext): Promise<Values> {
  const lists = await retriever.search(queries as readonly string[], { topk: topk as number, signal });
  return { ret_psg: lists.map((list) => list.map(({ contents }) => contents)) };
}

/** UltraRAG takes only a host and a port. */
function withScheme(url: string): string {
  const trimmed = url.trim();
  return /^https?:\/\//i.test(trimmed) ? trimmed : `http://${trimmed}`;
}
