/**
 * The Model Context Protocol over the input and output of a child process. Unlike the transport of the SDK, it ends the process with everything that it started (`npx` starts
 * the server as a child of its own), also when this process is killed, and bounds what a message may become before it is parsed.
 */
import { finished } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { countText } from '../core/count-text.ts';
import { JsonBounds, REQUEST_LIMITS } from '../core/json-bounds.ts';
import { withoutColours } from '../core/without-colours.ts';
import { ProcessGroup } from '../files/process-group.ts';

export interface StdioOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Reads a line. Throws for one that is no message, such as a line of a server's own log. */
  readonly parse: (line: string) => JSONRPCMessage;
  /** A message that has too much, such as `nests lists and objects more than 64 levels deep`; the connection ends. */
  readonly onExcess: (excess: string) => void;
}

/** The time that a server may take to end by itself once its input is closed, and again once it is asked to end, in milliseconds. */
const END_GRACE_MS = 1000;
/** Bytes of a message, as in the package. */
export const MOST_MESSAGE_BYTES = 10 * 2 ** 20;
/** Number of characters of a server's last lines on stderr that are kept: more than are quoted, because a secret may be cut at the first. */
const KEPT_STDERR = 2000;

const NEWLINE = 0x0a;

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** The end of what the server wrote to stderr. */
  written = '';
  readonly #options: StdioOptions;
  readonly #bounds = new JsonBounds(REQUEST_LIMITS, true);
  /** The beginning of the next line. */
  #pieces: Buffer[] = [];
  #bytes = 0;
  #group: ProcessGroup | null = null;
  #isEnded = false;

  constructor(options: StdioOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { command, args, env, cwd } = this.#options;
    const group = await ProcessGroup.start({ command, args, env, folder: cwd, output: 'pipes' });
    this.#group = group;
    const { stdin, stdout, stderr } = group.streams;
    // A server that has ended takes nothing more; its end is reported by itself.
    stdin.on('error', (error) => this.onerror?.(error));
    stdout.on('data', (chunk: Buffer) => this.#take(chunk));
    stderr.on('data', (chunk: Buffer) => (this.written = withoutColours(this.written + chunk.toString('utf8')).slice(-KEPT_STDERR)));
    // What it wrote last arrives after its end, unless a process that left the group holds its outputs.
    const drained = Promise.allSettled([finished(stdout), finished(stderr)]);
    void group.ended.then(() => Promise.race([drained, sleep(END_GRACE_MS, undefined, { ref: false })])).then(() => this.#end());
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const { stdin } = this.#group!.streams;
    if (!stdin.writable) throw new Error('the server takes no more messages');
    await new Promise<void>((resolve, reject) => {
      stdin.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Closes the server's input, waits for it to end, then ends its processes. */
  async close(): Promise<void> {
    // At once, so that no request waits for the process.
    this.#end();
    const group = this.#group;
    if (group === null) return;
    group.streams.stdin.end();
    await Promise.race([group.ended, sleep(END_GRACE_MS, undefined, { ref: false })]);
    await group.stop(END_GRACE_MS);
  }

  #take(chunk: Buffer): void {
    if (this.#isEnded) return;
    const excess =
      this.#bounds.take(chunk) ?? (this.#bytes + chunk.length > MOST_MESSAGE_BYTES ? `has more than ${countText(MOST_MESSAGE_BYTES)} bytes` : null);
    if (excess !== null) return this.#options.onExcess(excess);
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at !== -1 && !this.#isEnded; at = chunk.indexOf(NEWLINE, from)) {
      this.#readLine(Buffer.concat([...this.#pieces, chunk.subarray(from, at)]).toString('utf8'));
      this.#pieces = [];
      this.#bytes = 0;
      from = at + 1;
    }
    this.#pieces.push(chunk.subarray(from));
    this.#bytes += chunk.length - from;
  }

  #readLine(line: string): void {
    try {
      this.onmessage?.(this.#options.parse(line));
    } catch (error) {
      this.onerror?.(error as Error);
    }
  }

  #end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.onclose?.();
  }
}
