/** The trainer's PolicyServers for servers that this run did not start: waits for one that does not answer. */
import { PolicyError } from '../core/errors.ts';
import { ServerHealth } from './server-health.ts';

export interface RemoteServersOptions {
  /** One per replica. */
  readonly baseUrls: readonly string[];
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The time for which `revive` waits, in milliseconds. */
  readonly deadlineMs: number;
  readonly onEvent?: (text: string) => void;
}

export class RemoteServers implements AsyncDisposable {
  readonly #options: RemoteServersOptions;
  readonly #servers: ReadonlyMap<string, ServerHealth>;

  constructor(options: RemoteServersOptions) {
    const { baseUrls, apiKey, headers } = options;
    this.#options = options;
    const credentials = { ...(apiKey === undefined ? {} : { apiKey }), ...(headers === undefined ? {} : { headers }) };
    const servers = baseUrls.map((baseUrl) => new ServerHealth({ baseUrl, ...credentials }));
    this.#servers = new Map(servers.map((server) => [server.url, server]));
  }

  get replicas(): readonly string[] {
    return [...this.#servers.keys()];
  }

  /** Throws the PolicyError of a replica that did not come back by the deadline; throws at once if waiting cannot help (a wrong key). */
  async revive(replica: string, signal: AbortSignal): Promise<void> {
    const { deadlineMs, onEvent } = this.#options;
    const server = this.#servers.get(replica);
    if (server === undefined) throw new PolicyError(`The run has no policy server ${replica}. Check policy.base_url.`);
    const startedMs = performance.now();
    let isReported = false;
    const onRetry = ({ message }: Error) => {
      if (!isReported) onEvent?.(`waiting up to ${Math.round(deadlineMs / 1000)} s for ${server.url}: ${message}`);
      isReported = true;
    };
    try {
      await server.wait({ signal, deadlineMs, onRetry });
      // /health needs no key and says nothing about the models.
      await server.models({ signal, deadlineMs: deadlineMs - (performance.now() - startedMs), onRetry, isBehindProxy: true });
      if (isReported) onEvent?.(`${server.url} answers again`);
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      throw new PolicyError(`${error.message}. Restart the server. If the run has ended, continue it with -R.`, { cause: error });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.close()));
  }
}
