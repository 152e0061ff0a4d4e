import { type ServedCommand, serveCommand } from './serve-command.ts';

/** search-r1 over the data set, whose retriever answered while the server started and has gone since. */
export async function serveWithoutRetriever(dataset: string, options: readonly string[] = []): Promise<ServedCommand> {
  await using retriever = await serveCommand(['retrieve', '--corpus', 'fact-world']);
  return await serveCommand(['environment', 'search-r1', '-a', JSON.stringify({ dataset, retriever_url: retriever.url }), ...options]);
}
