/** URLs of servers as callers write them. A loop removes slashes, because `/\/+$/` takes quadratic time on a long run of them. */

/** The text without the slashes at its end. */
export function withoutTrailingSlashes(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === '/') end--;
  return text.slice(0, end);
}

/** The URL at which a server has its routes besides those of `/v1`, without a slash at its end. */
export function serverRoot(baseUrl: string): string {
  const url = withoutTrailingSlashes(baseUrl);
  return url.endsWith('/v1') ? url.slice(0, -'/v1'.length) : url;
}
