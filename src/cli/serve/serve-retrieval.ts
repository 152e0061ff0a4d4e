import { ConfigError } from '../../core/errors.ts';
import { openRetriever, type OpenRetrieverOptions } from '../../registry/open-retriever.ts';
import { isLoopback, listen } from '../../server/listen.ts';
import { retrievalApp } from '../../server/retrieval-app.ts';
import { redactUrl } from '../../transport/redact.ts';
import { plural } from '../../reports/text/number-text.ts';
import { denseNotices } from '../../retrieval/dense/dense-notices.ts';
import type { CommandContext } from '../command-line.ts';
import { loadEnvironmentFile } from '../../sessions/environment/environment-file.ts';
import { readingError } from '../../files/place-error.ts';
import { passageColumns } from '../options/shared-options.ts';
import type { RetrieveOptions } from './retrieve-command.ts';
import { failureNotes, serveUntilStopped } from './serving.ts';
import { countText } from '../../core/count-text.ts';

/** Time for pending requests to finish after Ctrl-C; a second Ctrl-C ends them. */
const GRACE_MS = 30_000;

const NOTE_EVERY_MS = 3_000;

/** Serves until the process is asked to stop. The first line on stdout is the URL, printed once the server answers. */
export async function serveRetrieval(options: RetrieveOptions, context: CommandContext): Promise<void> {
  const { host, port, topk, maxPending } = options;
  const retriever = await openRetriever({ ...source(options, context), onProgress: progressNotes(context) }).catch((error: unknown) => {
    throw readingError(error, { what: 'the corpus', path: options.corpus });
  });
  try {
    const server = await listen(retrievalApp({ retriever, host, defaultTopk: topk, maxPending, onFailure: failureNotes(context) }), { host, port });
    if (!isLoopback(host)) context.note(`vf-serve: listening on ${host}: anyone who can reach this machine can search, without a password`);
    for (const line of denseNotices(options.corpus ?? '')) context.note(`vf-serve: ${line}`);
    const about = `searching ${retriever.name}, ${plural(topk, 'passage')} per query`;
    await serveUntilStopped({ address: `${server.url}/retrieve`, about, ending: 'finishing pending requests' }, context);
    await server.close({ graceMs: GRACE_MS });
  } finally {
    await retriever.close();
  }
}

/** Prints a line every few seconds, so that loading a large corpus is not silent. */
function progressNotes(context: CommandContext): (progress: { readonly rows: number }) => void {
  let notedAt = performance.now();
  return ({ rows }) => {
    if (performance.now() - notedAt < NOTE_EVERY_MS) return;
    notedAt = performance.now();
    context.note(`vf-serve: ${countText(rows)} passages indexed; an index built with vf-index takes almost no time to open`);
  };
}

function source(
  {
    corpus,
    engine: named,
    dense,
    embeddingsUrl,
    embeddingsModel,
    collection,
    url,
    perSecond,
    timeout,
    retries,
    maxWait,
    ...columns
  }: RetrieveOptions,
  context: CommandContext,
): OpenRetrieverOptions {
  if (dense && named !== undefined && named !== 'dense') throw new ConfigError(`--dense and --engine ${named} exclude each other; leave one out`);
  const engine = dense ? 'dense' : named;
  if (maxWait !== undefined && (engine ?? (url === undefined ? 'bm25' : 'http')) === 'bm25')
    throw new ConfigError('The engine bm25 sends no search to a server, so it does not use --max-wait. Leave it out, or choose an engine that does.');
  loadEnvironmentFile('.env', process.env);
  for (const key of [process.env['SERPER_API_KEY'], process.env['GOOGLE_API_KEY'], process.env['EMBEDDINGS_API_KEY'], process.env['QDRANT_API_KEY']])
    if (key) context.secrets.add(key);
  for (const address of [url, embeddingsUrl, process.env['SEARXNG_URL'], process.env['EMBEDDINGS_URL']])
    if (address && redactUrl(address) !== address) context.secrets.add(address);
  return {
    env: process.env,
    signal: context.signal,
    ...(corpus === undefined ? {} : { corpus }),
    columns: passageColumns(columns),
    ...(engine === undefined ? {} : { engine }),
    ...(embeddingsUrl === undefined ? {} : { embeddingsUrl }),
    ...(embeddingsModel === undefined ? {} : { embeddingsModel }),
    ...(collection === undefined ? {} : { collection }),
    ...(url === undefined ? {} : { retrieverUrl: url }),
    ...(perSecond === undefined ? {} : { perSecond }),
    ...(timeout === undefined ? {} : { timeoutMs: timeout * 1000 }),
    ...(retries === undefined ? {} : { maxRetries: retries }),
  };
}
