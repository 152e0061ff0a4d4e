/** Who sends a request, so that one client's work does not shut out the others'. Clients behind one address, such as a proxy's or this machine's, are one. */
const ADDRESSES = new WeakMap<Request, string>();

/** Notes the address from which the request comes. */
export function noteClient(request: Request, address: string | undefined): void {
  if (address !== undefined) ADDRESSES.set(request, address);
}

/** An IPv4 address, or the first 64 bits of one of IPv6, of which a client has as many as it likes; empty where the request came over no connection. */
export function clientOf(request: Request): string {
  return networkOf(ADDRESSES.get(request));
}

/** As `clientOf`, of an address. */
export function networkOf(from: string | undefined): string {
  const address = (from ?? '').replace(/^::ffff:(?=\d+\.)/, '');
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('::', 2);
  const groups = head.split(':');
  const missing = tail === undefined ? 0 : 8 - groups.length - tail.split(':').length;
  return [...groups, ...Array.from({ length: Math.max(0, missing) }, () => '0')].slice(0, 4).join(':');
}
