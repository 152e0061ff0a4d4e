/** Builds the environment from its arguments. The only module of this folder that loads rows and opens retrievers. */
import { ConfigError, type LoadContext, loadRecords, openRetriever, type RowsSource } from 'vf-search';
import { parseArguments, type VisualArguments } from './arguments.ts';
import { documentPages, pagePassages } from './documents.ts';
import { toVisualRow, type VisualRow } from './rows.ts';
import { VisualRagEnv } from './visual-rag-env.ts';

/** The commits of the systems that this environment reproduces. */
const UPSTREAM = 'eoeldroal/DDAI_cleaned@dcd0c43, Alibaba-NLP/VRAG@24f8d05';
/** The split of a bundled deck that holds its pages. */
const PAGES_SPLIT = 'pages';

/** Throws ConfigError for unknown or unusable arguments; the README lists the arguments. */
export async function loadEnvironment(
  args: Readonly<Record<string, unknown>> = {},
  { env = process.env, purpose = 'evaluation', signal }: Partial<LoadContext> = {},
): Promise<VisualRagEnv> {
  const parsed = parseArguments(args, env);
  const { dataset, maxResponseLength, named } = parsed;
  const common = { env, ...(signal && { signal }) };
  const test = await loadSplit(parsed, parsed.dataSplit ?? 'test', common);
  const train = purpose === 'training' ? await loadSplit(parsed, 'train', common) : null;
  const sidecar = await loadRecords({ dataset: parsed.pages ?? dataset, split: PAGES_SPLIT, ...common });
  const pages = documentPages(sidecar.records);
  const retriever = await (parsed.retrieverUrl === null
    ? openRetriever({ passages: pagePassages(pages), name: `bm25 ${dataset} pages`, ...common })
    : openRetriever({ retrieverUrl: parsed.retrieverUrl, mustAnswer: true, ...common }));
  try {
    return new VisualRagEnv({
      ...parsed,
      name: dataset,
      rows: test.rows,
      ...(train === null ? {} : { trainRows: train.rows }),
      pages,
      retriever,
      limits: { responseTokens: maxResponseLength },
      provenance: {
        upstream: UPSTREAM,
        sources: [test.source, ...(train === null ? [] : [train.source]), sidecar.source],
        retriever: retriever.name,
        arguments: named,
      },
    });
  } catch (error) {
    await retriever.close();
    throw error;
  }
}

interface LoadedSplit {
  readonly rows: readonly VisualRow[];
  readonly source: RowsSource;
}

async function loadSplit(
  { dataset, dataLimit, observations }: VisualArguments,
  split: string,
  common: { readonly env: NonNullable<LoadContext['env']>; readonly signal?: AbortSignal },
): Promise<LoadedSplit> {
  const { records, source } = await loadRecords({ dataset, split, ...(dataLimit === null ? {} : { limit: dataLimit }), ...common });
  const rows = records.map(({ fields, place }) => toVisualRow(fields, place, observations));
  const seen = new Set<string>();
  for (const [i, { exampleId }] of rows.entries()) {
    if (seen.has(String(exampleId))) throw new ConfigError(`${records[i]!.place}: the id ${JSON.stringify(exampleId)} is there twice`);
    seen.add(String(exampleId));
  }
  return { rows, source };
}
