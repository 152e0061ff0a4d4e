/**
 * Runs a coding agent and listens to what it asks the policy, in the sandbox: `node listen-to-harness.ts BIN SCRIPT QUESTION`, with the folder of the agent's program. Prints one line of JSON: its answer, how it ended,
 * what it said on stderr, and each exchange. What the policy answers passes through unchanged.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer, text } from 'node:stream/consumers';

export interface HeardExchange {
  readonly path: string;
  readonly status: number;
  /** The body as it was sent. */
  readonly request: Readonly<Record<string, unknown>>;
  /** What came back, as text. */
  readonly answer: string;
}

/** What is printed. */
export interface HeardHarness {
  readonly answer: string;
  /** Of the agent; null if it was killed. */
  readonly code: number | null;
  readonly stderr: string;
  readonly exchanges: readonly HeardExchange[];
}

const policy = new URL(process.env['OPENAI_BASE_URL']!);

async function passOn(asked: IncomingMessage, answered: ServerResponse): Promise<HeardExchange> {
  const body = await buffer(asked);
  const headers = Object.entries(asked.headersDistinct).flatMap(([name, values = []]) =>
    ['host', 'connection', 'content-length', 'transfer-encoding', 'expect', 'accept-encoding'].includes(name)
      ? []
      : values.map((value): [string, string] => [name, value]),
  );
  const response = await fetch(new URL(asked.url!, policy), { method: asked.method!, headers, ...(body.length === 0 ? {} : { body }) });
  answered.writeHead(response.status, { 'content-type': response.headers.get('content-type') ?? 'text/plain' });
  const parts: Uint8Array[] = [];
  for await (const part of response.body ?? []) {
    parts.push(part);
    answered.write(part);
  }
  answered.end();
  const request = body.length === 0 ? {} : (JSON.parse(body.toString()) as HeardExchange['request']);
  return {
    path: asked.url!.slice(policy.pathname.replace(/\/v1$/, '').length),
    status: response.status,
    request,
    answer: Buffer.concat(parts).toString(),
  };
}

async function listen([bin, script, question]: readonly string[]): Promise<HeardHarness> {
  const exchanges: HeardExchange[] = [];
  const server = createServer((asked, answered) => {
    passOn(asked, answered).then(
      (exchange) => exchanges.push(exchange),
      (error: unknown) => answered.destroy(error as Error),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const here = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const addresses = ['OPENAI_BASE_URL', 'ANTHROPIC_BASE_URL'].map((name) => [name, process.env[name]!.replace(policy.host, here)]);
  const agent = spawn('sh', [script!, question!], {
    env: { ...process.env, PATH: `${bin}:${process.env['PATH']}`, ...Object.fromEntries(addresses) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [code]] = await Promise.all([text(agent.stdout), text(agent.stderr), once(agent, 'exit')]);
  server.close();
  server.closeAllConnections();
  return { answer: stdout.trimEnd().split('\n').at(-1)! || 'no answer', code: code as number | null, stderr, exchanges };
}

process.stdout.write(`${JSON.stringify(await listen(process.argv.slice(2)))}\n`);
