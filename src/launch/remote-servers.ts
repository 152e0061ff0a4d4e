/** The trainer's PolicyServers for servers that this run did not start: waits for them, and checks whether they still have a loaded adapter. */
import { PolicyError } from '../core/errors.ts';
import { ServerHealth } from './server-health.ts';

export interface RemoteServersOptions {
  /** One per replica. */
  readonly baseUrls: readonly string[];
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** How long a recovery waits for all of them. */
  readonly deadlineMs: number;
  readonly onEvent?: (text: string) => void;
}

export class RemoteServers {
  readonly #options: RemoteServersOptions;

  constructor(options: RemoteServersOptions) {
    this.#options = options;
  }

  /** Throws the PolicyError of a replica that did not come back by the deadline; throws at once if waiting cannot help (a wrong key). */
  async recover(model: string, signal: AbortSignal): Promise<{ readonly lostAdapters: boolean }> {
    const lost = await Promise.all(this.#options.baseUrls.map((baseUrl) => this.#hasLost(baseUrl, model, signal)));
    return { lostAdapters: lost.includes(true) };
  }

  async #hasLost(baseUrl: string, model: string, signal: AbortSignal): Promise<boolean> {
    const { apiKey, headers, deadlineMs, onEvent } = this.#options;
    const server = new ServerHealth({ baseUrl, ...(apiKey === undefined ? {} : { apiKey }), ...(headers === undefined ? {} : { headers }) });
    const startedMs = performance.now();
    let isReported = false;
    const onRetry = ({ message }: Error) => {
      if (!isReported) onEvent?.(`waiting up to ${Math.round(deadlineMs / 1000)} s for ${server.url}: ${message}`);
      isReported = true;
    };
    try {
      await server.wait({ signal, deadlineMs, onRetry });
      const names = await server.models({ signal, deadlineMs: deadlineMs - (performance.now() - startedMs), onRetry });
      if (isReported) onEvent?.(`${server.url} answers again`);
      return !names.includes(model);
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      throw new PolicyError(`${error.message}. Restart the server, then resume the run.`, { cause: error });
    } finally {
      await server.close();
    }
  }
}
