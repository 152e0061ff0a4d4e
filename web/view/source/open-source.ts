/** Opens the answers inside the page if there are some, else the server that it came from. */
import type { ViewSource } from '../../../src/viewing/view-wire.ts';
import { ExportSource } from './export-source.ts';
import { HttpSource } from './http-source.ts';
import { tokenOfFragment } from './token-of-fragment.ts';

export function openSource(): ViewSource {
  const data = document.querySelector('script[type="application/json"]#vf-view-data')?.textContent ?? null;
  return data === null
    ? new HttpSource(tokenOfFragment())
    : new ExportSource((JSON.parse(data) as { readonly answers: Record<string, unknown> }).answers);
}
