/** Access control: requests need the API key, and web pages cannot reach the server by DNS rebinding. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { isLoopback } from '../listen.ts';

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

/**
 * Whether a request's `host` header names this server. A web page whose domain resolves to 127.0.0.1 can reach a loopback server but cannot hide its domain. Servers
 * on other addresses have names that we do not know, and rely on keys.
 */
export function hostCheck(boundHost: string): (host: string | undefined) => boolean {
  if (!isLoopback(boundHost)) return () => true;
  const names = new Set(['localhost', '127.0.0.1', '[::1]', boundHost, `[${boundHost}]`]);
  return (host = '') => names.has(host.toLowerCase().replace(/:\d+$/, ''));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
