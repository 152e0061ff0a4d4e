import { randomBytes } from 'node:crypto';
import { isLoopback, listen } from '../../server/listen.ts';
import { viewApp } from '../../server/view/view-app.ts';
import { packageRoot } from '../../data/package-root.ts';
import type { CommandContext } from '../command-line.ts';
import { failureNotes } from '../serve/serving.ts';
import type { OpenedView } from '../../server/view/open-view.ts';
import { readPage } from '../../server/view/read-page.ts';

export interface ServeViewOptions extends OpenedView {
  readonly host: string;
  readonly port: number;
}

export interface ServedView extends AsyncDisposable {
  /** The page's address, with the token that it needs, and for a single run its screen. */
  readonly address: string;
}

const TOKEN_BYTES = 24;
const GRACE_MS = 2_000;

export async function serveView({ source, runs, host, port }: ServeViewOptions, context: CommandContext): Promise<ServedView> {
  const token = isLoopback(host) ? null : randomBytes(TOKEN_BYTES).toString('base64url');
  if (token !== null) context.secrets.add(token);
  const app = viewApp({ source, host, token, page: await readPage(packageRoot()), onFailure: failureNotes(context) });
  const server = await listen(app, { host, port });
  const [only] = runs;
  // A folder that is a run itself.
  const screen = only?.id === '.' ? [`/${only.kind === 'training' ? 'curves' : 'run'}?run=.`] : [];
  const fragment = [...(token === null ? [] : [`token=${token}`]), ...screen].join('&');
  return {
    address: `${server.url}/${fragment === '' ? '' : `#${fragment}`}`,
    [Symbol.asyncDispose]: () => server.close({ graceMs: GRACE_MS }),
  };
}
