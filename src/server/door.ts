/**
 * Keeps web pages away from a server on this machine. A web page whose domain resolves to 127.0.0.1 (DNS rebinding) cannot hide its domain in the `host` header.
 * A page of another origin cannot send JSON unless the server agrees first, which these servers never do. Both servers check both, and each refuses in its own form.
 */
import { isLoopback } from './listen.ts';

export interface WithHeaders {
  readonly headers: Pick<Headers, 'get'>;
}

/** The reason why a request for another host is refused. */
export const WRONG_HOST = 'The host header does not name this server. Use its own address, such as 127.0.0.1.';

/**
 * Tells whether a request's `host` header names this server, by the address that it listens on. Servers on addresses other than loopback may have any name, so every
 * host passes there.
 */
export function hostCheck(boundHost: string): (request: WithHeaders) => boolean {
  if (!isLoopback(boundHost)) return () => true;
  const names = new Set(['localhost', '127.0.0.1', '[::1]', boundHost, `[${boundHost}]`]);
  return ({ headers }) => names.has((headers.get('host') ?? '').toLowerCase().replace(/:\d+$/, ''));
}

/** Tells whether the request says that its body is JSON. */
export function isJson({ headers }: WithHeaders): boolean {
  return headers.get('content-type')?.split(';', 1)[0]!.trim().toLowerCase() === 'application/json';
}
