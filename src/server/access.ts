/** Access control: requests need the API key. */
import { createHash, timingSafeEqual } from 'node:crypto';

/**
 * Tells whether a request with this `authorization` is allowed. Takes the same time for every key. `openPaths` are open to probes and scrapers without a key,
 * because they reveal nothing about requests.
 */
export function keyCheck(apiKey: string | null, openPaths: ReadonlySet<string>): (path: string, authorization: string | undefined) => boolean {
  if (apiKey === null) return () => true;
  const expected = digest(apiKey);
  return (path, authorization = '') => {
    if (openPaths.has(path)) return true;
    const [scheme = '', ...key] = authorization.split(' ');
    return scheme.toLowerCase() === 'bearer' && timingSafeEqual(digest(key.join(' ')), expected);
  };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
