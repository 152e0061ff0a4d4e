/** Access control: requests need the API key. */
import { createHash, timingSafeEqual } from 'node:crypto';

/** Open to probes and scrapers without a key; they reveal nothing about requests. */
const OPEN_PATHS: ReadonlySet<string> = new Set(['/health', '/ping', '/version', '/metrics']);

/** Whether a request with this `authorization` is allowed. Takes the same time for every key. */
export function keyCheck(apiKey: string | null): (path: string, authorization: string | undefined) => boolean {
  if (apiKey === null) return () => true;
  const expected = digest(apiKey);
  return (path, authorization = '') => {
    if (OPEN_PATHS.has(path)) return true;
    const [scheme = '', ...key] = authorization.split(' ');
    return scheme.toLowerCase() === 'bearer' && timingSafeEqual(digest(key.join(' ')), expected);
  };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
