import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { packageRoot } from '../../data/package-root.ts';
import { isLoopback, listen } from '../../server/listen.ts';
import { viewApp } from '../../server/view/view-app.ts';
import { FileSource } from '../../viewing/file-source.ts';
import type { CommandContext } from '../command-line.ts';
import { failureNotes } from '../serve/failure-notes.ts';

export interface ServeViewOptions {
  readonly directory: string;
  readonly host: string;
  readonly port: number;
  readonly tokenizer?: string;
}

export interface ServedView extends AsyncDisposable {
  /** The page's address, with the token that it needs. */
  readonly address: string;
  readonly label: string;
  /** Runs found at the start. */
  readonly runs: number;
}

/** Throws ConfigError for a folder that does not exist or holds no run. */
export async function serveView({ directory, host, port, tokenizer }: ServeViewOptions, context: CommandContext): Promise<ServedView> {
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new ConfigError(`No folder is at ${directory}. Name the folder that holds your runs, or make a run first: npx vf-eval search-r1 -n 50`);
  const source = new FileSource({ root: directory, label: directory, tokenizer: tokenizer ?? null });
  const { runs } = await source.runs();
  if (runs.length === 0) throw new ConfigError(`${directory} holds no run. Name another folder, or make a run first: npx vf-eval search-r1 -n 50`);
  const token = isLoopback(host) ? null : randomBytes(24).toString('base64url');
  if (token !== null) context.secrets.add(token);
  const page = join(packageRoot(), 'dist', 'web', 'view');
  const server = await listen(viewApp({ source, page, host, token, onFailure: failureNotes(context) }), { host, port });
  return {
    address: `${server.url}/${token === null ? '' : `#token=${token}`}`,
    label: directory,
    runs: runs.length,
    [Symbol.asyncDispose]: () => server.close({ graceMs: 2_000 }),
  };
}
