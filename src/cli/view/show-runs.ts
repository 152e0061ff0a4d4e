/** The work of `vf-view`: serves a page of runs or the lab until Ctrl-C, or writes runs as one HTML file. */
import { once } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { ConfigError } from '../../core/errors.ts';
import { packageRoot } from '../../data/package-root.ts';
import { bytesText, plural } from '../../reports/text/number-text.ts';
import type { CommandContext } from '../command-line.ts';
import { isStdout, writeOutput } from '../write-output.ts';
import type { OpenedView } from '../../server/view/open-view.ts';

/** Folders that cannot be read, and damaged files, on stderr. */
const MOST_UNREAD = 5;

export interface ShowOptions {
  readonly host: string;
  readonly port: number;
  /** Opens the browser. @default false */
  readonly open?: boolean;
  /** File to write instead of serving a page; `-` is stdout. @default none */
  readonly export?: string;
  /** Folder of a tokenizer. @default that of the run's model */
  readonly tokenizer?: string;
}

export async function showRuns(
  folder: string,
  { host, port, open = false, tokenizer, export: file }: ShowOptions,
  context: CommandContext,
): Promise<void> {
  // Otherwise V8 keeps the short-lived objects of 100,000 rollouts so long that they take another 100 MB.
  setFlagsFromString('--semi-space-growth-factor=1');
  const { openView } = await import('../../server/view/open-view.ts');
  const view = await openView({ folder, tokenizer });
  for (const line of view.unread.slice(0, MOST_UNREAD)) context.note(`vf-view: ${line}`);
  if (view.unread.length > MOST_UNREAD)
    context.note(`vf-view: ${plural(view.unread.length - MOST_UNREAD, 'further folder')} cannot be read; the page lists all`);
  if (file !== undefined) return await writeExport(view, file, context);
  const damaged = view.runs.flatMap(({ id, problems }) => problems.map((problem) => `${id}: ${problem}`));
  for (const line of damaged.slice(0, MOST_UNREAD)) context.note(`vf-view: ${line}`);
  if (damaged.length > MOST_UNREAD)
    context.note(`vf-view: ${plural(damaged.length - MOST_UNREAD, 'further damaged file')}; the pages of the runs name all`);
  const { serveView } = await import('./serve-view.ts');
  await using server = await serveView({ ...view, host, port }, context);
  return await serveUntilInterrupt(server.address, { open, note: `${plural(view.runs.length, 'run')} below ${folder}` }, context);
}

export async function showLab(folder: string | undefined, { host, port, open = false }: ShowOptions, context: CommandContext): Promise<void> {
  if (folder !== undefined) throw new ConfigError(`--lab shows no runs, so ${folder} has no use; leave it out`);
  const { serveLab } = await import('./serve-lab.ts');
  await using server = await serveLab({ host, port }, context);
  return await serveUntilInterrupt(server.address, { open, note: 'the lab trains in your browser' }, context);
}

async function serveUntilInterrupt(
  address: string,
  { open, note }: { readonly open: boolean; readonly note: string },
  context: CommandContext,
): Promise<void> {
  context.interruptIsEnd = true;
  context.onInterrupt = () => {};
  process.stdout.write(`${address}\n`);
  context.note(`vf-view: ${note}; Ctrl-C ends`);
  if (open) (await import('./open-browser.ts')).openBrowser(address, context);
  if (!context.signal.aborted) await once(context.signal, 'abort');
}

async function writeExport(view: OpenedView, file: string, context: CommandContext): Promise<void> {
  const [{ exportPage }, { readPage }] = await Promise.all([import('../../server/view/export-page.ts'), import('../../server/view/read-page.ts')]);
  const onProgress = (written: number) => context.note(`vf-view: ${bytesText(written)} written`);
  const options = { source: view.source, page: await readPage(packageRoot()), signal: context.signal, onProgress };
  const { bytes, leftOut } = await writeOutput(file, (write) => exportPage(write, options), '--export');
  const isPiped = isStdout(file);
  if (!isPiped) context.saved = file;
  if (!isPiped) process.stdout.write(`${file}\n`);
  for (const line of leftOut) context.note(`vf-view: left out: ${line}`);
  context.note(
    `vf-view: ${plural(view.runs.length, 'run')} in ${bytesText(bytes)}${isPiped ? ' written to stdout' : '; open the file in a browser'}`,
  );
}
