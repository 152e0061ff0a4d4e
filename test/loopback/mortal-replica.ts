/** A replica with vLLM's LoRA routes that can be killed, and that comes back on the same port with or without its adapters. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readText } from '../transport/loopback.ts';
import { loraServer, type LoopbackLora } from './lora-server.ts';

export class MortalReplica implements AsyncDisposable {
  /** `path body` of every completion that arrived, in order. */
  readonly completions: string[] = [];
  /** Called for each request before it is answered; what it does to the replica happens first. */
  onRequest: (path: string, body: string) => void | Promise<void> = () => {};
  /** Answers a request itself instead of the model; null leaves it to the model. */
  answer: (path: string) => { readonly status: number; readonly text: string } | null = () => null;
  #model: LoopbackLora;
  #server: Server;
  readonly #port: number;

  private constructor(model: LoopbackLora, server: Server) {
    this.#model = model;
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
    this.#serve(server);
  }

  static async start(): Promise<MortalReplica> {
    return new MortalReplica(await loraServer(), await listening(0));
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Names of the adapters that it serves; of a killed one, those that it had. */
  async adapters(): Promise<string[]> {
    const { data } = (await (await fetch(`${this.#model.url}/v1/models`)).json()) as { data: { id: string; parent: string | null }[] };
    return data.filter(({ parent }) => parent !== null).map(({ id }) => id);
  }

  /** Connections break and new ones are refused. */
  kill(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async comeBack({ withAdapters }: { readonly withAdapters: boolean }): Promise<void> {
    if (!withAdapters) {
      await this.#model[Symbol.asyncDispose]();
      this.#model = await loraServer();
    }
    this.#server = await listening(this.#port);
    this.#serve(this.#server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill();
    await this.#model[Symbol.asyncDispose]();
  }

  async #answered(path: string, options: RequestInit) {
    const answer = await fetch(`${this.#model.url}${path}`, options);
    return { status: answer.status, text: await answer.text() };
  }

  #serve(server: Server): void {
    server.on('request', (request, response) => {
      void (async () => {
        const body = await readText(request);
        const path = request.url!;
        if (path === '/v1/completions') this.completions.push(body);
        await this.onRequest(path, body);
        const { status, text } = this.answer(path) ?? (await this.#answered(path, { method: request.method!, ...(body === '' ? {} : { body }) }));
        response.writeHead(status, { 'content-type': 'application/json' }).end(text);
        // What a kill breaks is the test's doing.
      })().catch(() => response.destroy());
    });
  }
}

async function listening(port: number): Promise<Server> {
  const server = createServer();
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
