import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import { exportPage } from '../../src/server/view/export-page.ts';
import { readPage } from '../../src/server/view/read-page.ts';
import { openView, type OpenedView } from '../../src/server/view/open-view.ts';
import { listen, type RunningServer } from '../../src/server/listen.ts';
import { viewApp } from '../../src/server/view/view-app.ts';
import { VIEW_REQUESTS } from '../../src/viewing/request-key.ts';
import type { ViewSource } from '../../src/viewing/view-wire.ts';
import { ExportSource } from '../../web/view/source/export-source.ts';
import { viewSourceContract, writeSourceRuns } from '../contracts/view-source.ts';

const root = mkdtempSync(join(tmpdir(), 'view-source-'));
let view: OpenedView;
let server: RunningServer;
let answers: Record<string, unknown>;

beforeAll(async () => {
  writeSourceRuns(root);
  view = await openView({ folder: root, tokenizer: undefined });
  server = await listen(viewApp({ source: view.source, host: '127.0.0.1', token: null, page: new Map() }), { host: '127.0.0.1', port: 0 });
  let html = '';
  const write = async (text: string) => void (html += text);
  const page = await readPage(join(import.meta.dirname, '../..'));
  await exportPage(write, { source: view.source, page, signal: new AbortController().signal, onProgress: () => {} });
  const [, data] = /id="vf-view-data">([^]*?)<\/script>/.exec(html)!;
  ({ answers } = JSON.parse(data!) as { answers: Record<string, unknown> });
});
afterAll(async () => {
  await server.close({ graceMs: 0 });
  rmSync(root, { recursive: true });
});

/** Asks as the page does; the page's own source needs the address of a page. */
function overHttp(): ViewSource {
  const ask =
    <A extends unknown[], T>(key: (...args: A) => string) =>
    async (...args: A): Promise<T> => {
      const response = await fetch(`${server.url}/${key(...args)}`);
      const body = (await response.json()) as { problem?: string };
      if (!response.ok) throw new Error(body.problem);
      return body as T;
    };
  const { image, ...requests } = VIEW_REQUESTS;
  const asking = Object.fromEntries(Object.entries(requests).map(([name, key]) => [name, ask(key as (...args: unknown[]) => string)]));
  return { live: true, image, ...asking } as unknown as ViewSource;
}

describe('FileSource', () => {
  viewSourceContract(() => view.source);
});
describe('the server of vf-view', () => {
  viewSourceContract(overHttp);
});
describe('an exported file', () => {
  viewSourceContract(() => new ExportSource(answers));
});
