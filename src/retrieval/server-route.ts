import { withoutTrailingSlashes } from '../core/server-url.ts';
/** The URL of another route of the server whose URL is given, with or without `/v1` or one of its routes. */
export function serverRoute(text: string, route: string): string {
  const url = URL.parse(text);
  // The endpoint reports an invalid URL.
  if (url === null) return text;
  const base = withoutTrailingSlashes(url.pathname).replace(/\/(?:pooling|v1\/embeddings|v1)$/, '');
  url.pathname = `${base}/${route}`;
  return url.href;
}

/** The URL of a route below the one that is given. */
export function routeBelow(text: string, route: string): string {
  const url = URL.parse(text);
  if (url === null) return text;
  url.pathname = `${withoutTrailingSlashes(url.pathname)}/${route}`;
  return url.href;
}
