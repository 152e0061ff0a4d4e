/** One executor for all vectors, opened by the first that needs it. */
import { type CodeExecutor, openExecutor } from 'vf-search/execution';

let opened: Promise<CodeExecutor> | null = null;

export async function sandbox(): Promise<{ readonly executor: CodeExecutor; readonly signal: AbortSignal }> {
  opened ??= openExecutor('wasi', { workers: 1 });
  return { executor: await opened, signal: new AbortController().signal };
}

/** Ends its threads, if it was opened. */
export async function closeSandbox(): Promise<void> {
  const executor = await opened;
  opened = null;
  await executor?.close();
}
