/**
 * The proxy of a request, by the variables that curl and Python's clients read: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, each also in lower
 * case, which goes first. It differs from them in one point: a server on this machine's loopback is never asked through a proxy, because a run starts
 * some itself, and a proxy on another machine would ask its own.
 */
import { BlockList, isIP } from 'node:net';
import { type Dispatcher, Pool, ProxyAgent } from 'undici';
import { ConfigError } from '../core/errors.ts';
import { urlCredentials } from './credentials.ts';
import { redactUrl } from './redact.ts';

type Variables = Readonly<Record<string, string | undefined>>;

export interface Proxy {
  /** Without a path; the user and password are in `authorization`. */
  readonly origin: string;
  /** For Proxy-Authorization; null if the proxy needs none. */
  readonly authorization: string | null;
  /** The URL without its user and password, and the variable that names it, for messages. */
  readonly text: string;
  /** Parts of the URL that must not be shown. */
  readonly secrets: readonly string[];
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' };

/** The proxy for requests to this URL; null for none. Throws ConfigError for a variable that names no HTTP proxy. */
export function proxyFor(url: URL, variables: Variables): Proxy | null {
  const host = url.hostname.toLowerCase().replace(/^\[|\]$/g, '');
  if (isLoopback(host) || isException(host, url.port || DEFAULT_PORTS[url.protocol]!, variables)) return null;
  for (const name of [`${url.protocol.slice(0, -1)}_proxy`, 'all_proxy']) {
    const spelled = [name, name.toUpperCase()].find((each) => variables[each] !== undefined);
    const value = spelled === undefined ? '' : variables[spelled]!.trim();
    // An empty variable switches the proxy off, as in curl.
    if (spelled !== undefined) return value === '' ? null : proxyOf(value, spelled);
  }
  return null;
}

function proxyOf(value: string, variable: string): Proxy {
  const url = URL.parse(value.includes('://') ? value : `http://${value}`);
  if (url === null || !(url.protocol in DEFAULT_PORTS) || url.hostname === '')
    throw new ConfigError(
      `${variable} must be the URL of an HTTP proxy, such as http://proxy.example:3128, got ${redactUrl(value)}. Correct or unset it.`,
    );
  const { username, password } = url;
  const pair = [username, password].map((part) => (/%(?![0-9a-f]{2})/i.test(part) ? part : decodeURIComponent(part))).join(':');
  return {
    origin: url.origin,
    authorization: pair === ':' ? null : `Basic ${Buffer.from(pair).toString('base64')}`,
    text: `${url.origin} of ${variable}`,
    secrets: [...urlCredentials(url.href), ...(pair === ':' ? [] : [Buffer.from(pair).toString('base64')])],
  };
}

/** `localhost`, names below it, 127.0.0.0/8, ::1, and the addresses that mean "this machine". */
function isLoopback(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || /^127\.\d+\.\d+\.\d+$/.test(host) || ['::1', '::', '0.0.0.0'].includes(host);
}

/** NO_PROXY: `*`, names with all names below them, addresses, address ranges such as 10.0.0.0/8, each with or without a port. */
function isException(host: string, port: string, variables: Variables): boolean {
  const entries = (variables['no_proxy'] ?? variables['NO_PROXY'] ?? '').toLowerCase().split(/[\s,]+/);
  return entries.some((entry) => {
    if (entry === '*') return true;
    const [, name = entry, only = port] = /^(\[.*\]|[^:]+):(\d+)$/.exec(entry) ?? [];
    const bare = name.replace(/^\[|\]$/g, '').replace(/^\*?\./, '');
    if (bare === '' || only !== port) return false;
    return host === bare || (isIP(host) === 0 ? host.endsWith(`.${bare}`) : isInRange(host, bare));
  });
}

function isInRange(address: string, range: string): boolean {
  const [network, bits] = range.split('/', 2);
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  if (bits === undefined || !/^\d{1,3}$/.test(bits) || isIP(network!) !== isIP(address) || Number(bits) > (family === 'ipv6' ? 128 : 32))
    return false;
  const list = new BlockList();
  list.addSubnet(network!, Number(bits), family);
  return list.check(address, family);
}

/** True for undici's words for a 407, with and without a tunnel. */
export function isProxyRefusal(failure: string): boolean {
  return /Proxy (response|Authentication Required) \(407\)/.test(failure);
}

/** The failure of a request through the proxy, by the failure of the network. */
export function proxyFailure({ text }: Proxy, failure: string): string {
  return isProxyRefusal(failure) ? `the proxy ${text} requires a user and a password in its URL (407)` : `through the proxy ${text}: ${failure}`;
}

/** Connections to one origin, straight or through its proxy. Of undici's timeouts only the one for connecting is used: callers have their own deadlines. */
export function openConnections(origin: string, proxy: Proxy | null, connections: number): Dispatcher {
  const settings = { connections, headersTimeout: 0, bodyTimeout: 0 };
  const connect = { timeout: 10_000 };
  if (proxy === null) return new Pool(origin, { ...settings, connect });
  return new ProxyAgent({
    ...settings,
    uri: proxy.origin,
    ...(proxy.authorization !== null && { token: proxy.authorization }),
    // A plain request needs no tunnel, which many proxies refuse for ports other than 443.
    proxyTunnel: false,
    proxyTls: connect,
    requestTls: connect,
    factory: (target, options) => new Pool(target, { ...(options as Pool.Options), ...settings }),
  });
}
