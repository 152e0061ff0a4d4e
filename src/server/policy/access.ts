/** Who may ask: those who hold the key, and no web page that a name server sent here. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { isLoopback } from '../listen.ts';

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

/**
 * Whether a request was meant for this server, by its `host` header. A page whose name was made to point at 127.0.0.1 reaches a loopback server but cannot hide
 * its name. Servers that others can reach have names that nobody told us, and keys.
 */
export function hostCheck(boundHost: string): (host: string | undefined) => boolean {
  if (!isLoopback(boundHost)) return () => true;
  const names = new Set(['localhost', '127.0.0.1', '[::1]', boundHost, `[${boundHost}]`]);
  return (host = '') => names.has(host.toLowerCase().replace(/:\d+$/, ''));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
