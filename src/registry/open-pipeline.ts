/**
 * Opens a pipeline for programs: `vf-search/pipelines`. Chooses the services that its servers call: an OpenAI-compatible chat API, a search server, BM25, or the
 * web.
 */
import { ConfigError } from '../core/errors.ts';
import { NO_JOURNAL } from '../pipelines/call-journal.ts';
import { OpenPipeline, type RunPipelineOptions } from '../pipelines/open-pipeline.ts';
import type { PipelineResult } from '../pipelines/run-pipeline.ts';
import type { ToolsVersion } from '../pipelines/servers/tools-version.ts';
import type { ServiceOpeners } from '../pipelines/service-openers.ts';
import { findPipeline } from './find-pipeline.ts';
import { openChatApi } from './open-chat-api.ts';

export type { PipelineTool } from '../pipelines/pipeline-server.ts';
export { type Exchange, type PipelineQuestion, type PlayedQuestion, QuestionPipeline } from '../pipelines/question-pipeline.ts';
export { NO_JOURNAL, OpenPipeline, type PipelineResult, type RunPipelineOptions, type ToolsVersion };

/** UltraRAG's variable for the key of the chat API. */
const KEY_VARIABLE = 'LLM_API_KEY';

export interface OpenNamedPipelineOptions {
  /** `server.key=value` each, with the value in YAML; they take precedence over the parameter file. @default none */
  readonly set?: readonly string[];
  /** The version whose tools are meant. @default found out from the steps */
  readonly tools?: ToolsVersion;
  /** Environment variables: LLM_API_KEY for the chat API, SERPER_API_KEY for the web. @default those of this process */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Called with every key that is used, which must never be shown. @default does nothing */
  readonly onSecret?: (secret: string) => void;
  /** A chat API must say whether a stop string ended its text; otherwise the run ends. @default false */
  readonly strictStops?: boolean;
  /** Called once for each thing that a chat API made necessary, such as a field that it rejected. @default does nothing */
  readonly onNotice?: (notice: string) => void;
  /** False: the commands, modules and URLs that the file names as servers are left alone, for checks of files of others. @default true */
  readonly startServers?: boolean;
  /** Ends the start of servers. @default never */
  readonly signal?: AbortSignal;
}

/**
 * Opens a pipeline with its servers; dispose it at the end. `examples/search_o1.yaml` means the package's file if there is none here. Rejects with
 * PipelineFileError for anything that is wrong with the file.
 * @example
 * await using pipeline = await openPipeline('examples/search_o1.yaml', { set: ['evaluation.save_path=null'] });
 * const given = new Map([['benchmark.get_data', { q_ls: ['Who wrote Dracula?'], gt_ls: [['Bram Stoker']] }]]);
 * const { variables } = await pipeline.run({ journal: NO_JOURNAL, signal, given });
 */
export function openPipeline(named: string, options: OpenNamedPipelineOptions = {}): Promise<OpenPipeline> {
  const { set, tools, startServers, env = process.env, signal = new AbortController().signal } = options;
  return OpenPipeline.open({
    path: findPipeline(named).path,
    ...(set && { set }),
    ...(tools && { tools }),
    ...(startServers !== undefined && { startServers }),
    openers: serviceOpeners({ ...options, env, signal }),
    importModule: async (file) => {
      const { importEnvironment } = await import('./import-environment.ts');
      return importEnvironment(file, { isOwn: false });
    },
    signal,
  });
}

type OpenerOptions = OpenNamedPipelineOptions & Required<Pick<OpenNamedPipelineOptions, 'env' | 'signal'>>;

function serviceOpeners({ env, signal, onSecret, onNotice, strictStops = false }: OpenerOptions): ServiceOpeners {
  return {
    chat: async ({ baseUrl, model, apiKey = env[KEY_VARIABLE], concurrency, retries, stream = 'auto' }) => {
      if (apiKey) onSecret?.(apiKey);
      return openChatApi({
        baseUrls: [baseUrl],
        model,
        apiKey: apiKey || null,
        keyVariable: KEY_VARIABLE,
        maxConcurrentRequests: concurrency,
        maxRetries: retries,
        stream,
        strictStops,
        ...(onNotice && { onRemark: onNotice }),
      });
    },
    search: async (service) => {
      if ('url' in service) return openSearchServer(service.url);
      const { openRetriever } = await import('./open-retriever.ts');
      return openRetriever({ ...('web' in service ? { engine: 'serper' as const } : { corpus: service.corpus }), env, signal });
    },
  };
}

/** A URL that ends in `/retrieve` uses Search-R1's protocol; the path of any other becomes `/search`, as in UltraRAG. */
async function openSearchServer(text: string) {
  const url = URL.parse(text);
  if (url === null) throw new ConfigError(`The retriever URL ${JSON.stringify(text)} is not a URL; write http://host:port`);
  const { HttpRetriever } = await import('../retrieval/http-retriever.ts');
  if (/\/retrieve\/?$/.test(url.pathname)) return new HttpRetriever({ url: text });
  url.pathname = '/search';
  return new HttpRetriever({ url: url.href, protocol: 'search' });
}
