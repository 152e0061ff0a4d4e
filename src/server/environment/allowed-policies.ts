/** Which policy servers a caller may name, and which variables of this process may be sent to them as keys: what the server's start says, and nothing else. */
import { ConfigError } from '../../core/errors.ts';
import { redactUrl } from '../../transport/redact.ts';
import { isLoopback } from '../listen.ts';

export interface AllowedPoliciesOptions {
  /** `HOST` or `HOST:PORT`: what a caller may name in addition to this machine. @default none */
  readonly allowedHosts?: readonly string[];
  /** `NAME`, or `NAME@HOST` and `NAME@HOST:PORT` for a variable that goes to that server alone. @default none */
  readonly allowedKeyVariables?: readonly string[];
  /** True if other machines reach the server: then this machine's own services must be allowed too. @default false */
  readonly isOpen?: boolean;
  /** The name of the policy's field in requests, for errors. @default 'policy' */
  readonly field?: string;
}

interface Place {
  readonly host: string;
  /** Null for every port. */
  readonly port: string | null;
}

interface KeyVariable {
  readonly name: string;
  /** Null for every server that a caller may name. */
  readonly place: Place | null;
}

export class AllowedPolicies {
  readonly #hosts: readonly Place[];
  readonly #keys: readonly KeyVariable[];
  readonly #isOpen: boolean;
  readonly #field: string;

  /** Throws ConfigError for an entry that is not a host or not a variable. */
  constructor({ allowedHosts = [], allowedKeyVariables = [], isOpen = false, field = 'policy' }: AllowedPoliciesOptions) {
    this.#hosts = allowedHosts.map((text) => placeOf(text, `--allow-policy-host ${text}`));
    this.#keys = allowedKeyVariables.map(keyVariableOf);
    this.#isOpen = isOpen;
    this.#field = field;
  }

  /** Throws ConfigError unless a caller may name this server. */
  assertServer(baseUrl: string): void {
    const url = URL.parse(baseUrl);
    const shown = JSON.stringify(redactUrl(baseUrl).slice(0, 200));
    if (url === null || !/^https?:$/.test(url.protocol))
      throw new ConfigError(`${this.#field}.base_url is ${shown}. It must begin with http:// or https://.`);
    if (this.#hosts.some((place) => isAt(url, place))) return;
    const host = bareHost(url);
    if (!isLoopback(host))
      throw new ConfigError(
        `${this.#field}.base_url is ${shown}, beyond this machine. Start the server with --allow-policy-host ${host} to allow it.`,
      );
    if (this.#isOpen)
      throw new ConfigError(
        `${this.#field}.base_url is ${shown}, a service of the server's own machine, which other machines reach through this server. Start it with --allow-policy-host ${hostAndPort(url)} to allow that.`,
      );
  }

  /** Throws ConfigError unless a caller may have the value of this variable sent to this server. `name`: the request's field. */
  assertVariable(variable: string, name: string, baseUrl: string): void {
    const url = URL.parse(baseUrl);
    const named = this.#keys.filter((key) => key.name === variable);
    if (url !== null && named.some(({ place }) => place === null || isAt(url, place))) return;
    const shown = JSON.stringify(variable.slice(0, 64));
    throw new ConfigError(
      named.length === 0
        ? `${this.#field}.${name} is ${shown}. A variable is sent only if the server was started with --allow-policy-key-var NAME, or NAME@HOST:PORT for one server alone. Name none where the policy needs no key.`
        : `${this.#field}.${name} is ${shown}, which --allow-policy-key-var allows for another server than ${JSON.stringify(redactUrl(baseUrl).slice(0, 200))}.`,
    );
  }
}

function keyVariableOf(text: string): KeyVariable {
  const [, name, at] = /^([A-Za-z_][A-Za-z0-9_]*)(?:@(.+))?$/s.exec(text) ?? [];
  // Not shown, because it may be the key itself.
  if (name === undefined)
    throw new ConfigError('--allow-policy-key-var must be the name of an environment variable, or NAME@HOST:PORT, not the key itself');
  return { name, place: at === undefined ? null : placeOf(at, `--allow-policy-key-var ${name}@${at}`) };
}

function placeOf(text: string, where: string): Place {
  // A bare IPv6 address has colons of its own.
  const url =
    /^[0-9a-fA-F:.]+$/.test(text) && text.indexOf(':') !== text.lastIndexOf(':') ? URL.parse(`http://[${text}]`) : URL.parse(`http://${text}`);
  const isPlain = url !== null && url.pathname === '/' && !/[/?#@\s]/.test(text);
  if (!isPlain) throw new ConfigError(`${where} is not a host. Write HOST or HOST:PORT, such as gpu-1 or 127.0.0.1:8001.`);
  // URL.parse drops the port that http has anyway.
  return { host: bareHost(url), port: url.port !== '' ? url.port : /[^:]:80$|\]:80$/.test(text) ? '80' : null };
}

function isAt(url: URL, { host, port }: Place): boolean {
  return bareHost(url) === host && (port === null || portOf(url) === port);
}

function portOf({ port, protocol }: URL): string {
  return port !== '' ? port : protocol === 'https:' ? '443' : '80';
}

function hostAndPort(url: URL): string {
  return `${url.hostname}:${portOf(url)}`;
}

/** In lower case, as URLs are read; an IPv6 address without its brackets. */
function bareHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}
