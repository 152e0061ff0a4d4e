/**
 * What keeps web pages away from a server on this machine. A page whose name was made to point at 127.0.0.1 (DNS rebinding) cannot hide that name in its `host` header.
 * A page of another origin cannot send JSON unless the server agrees first, which ours never do. Both servers ask both questions; each refuses in its own form.
 */
import { isLoopback } from './listen.ts';

/** Why a request for another host is refused. */
export const WRONG_HOST = 'Expected this server to be asked for by its own address, such as 127.0.0.1, got the name of another host';

/**
 * Whether a request asks for this server, by its `host` header, at the address that the server listens on. A server that others can reach may have any name, so there
 * every host passes.
 */
export function hostCheck(boundHost: string): (request: Request) => boolean {
  if (!isLoopback(boundHost)) return () => true;
  const names = new Set(['localhost', '127.0.0.1', '[::1]', boundHost, `[${boundHost}]`]);
  return ({ headers }) => names.has((headers.get('host') ?? '').toLowerCase().replace(/:\d+$/, ''));
}

/** Whether the request says that its body is JSON. */
export function isJson({ headers }: Request): boolean {
  return headers.get('content-type')?.split(';', 1)[0]!.trim().toLowerCase() === 'application/json';
}
