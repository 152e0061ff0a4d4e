/** Who may ask: those who hold the key. */
import { createHash, timingSafeEqual } from 'node:crypto';

/** Asked by probes and scrapers that hold no key; they tell nothing of requests. */
const OPEN_PATHS: ReadonlySet<string> = new Set(['/health', '/ping', '/version', '/metrics']);

/** Whether a request with this `authorization` may go on. The time it takes tells nothing of the key. */
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
