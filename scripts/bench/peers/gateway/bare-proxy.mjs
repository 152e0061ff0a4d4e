// Passes requests on and looks at none of them: what a gateway in Node costs at least. node bare-proxy.mjs UPSTREAM; prints its port on stdout.
import http from 'node:http';
import { Pool } from 'undici';

const { origin } = new URL(process.argv[2]);
const pool = new Pool(origin, { connections: 256 });

async function text(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

async function pass(request, response) {
  const headers = { 'content-type': 'application/json' };
  const { statusCode, body } = await pool.request({ method: 'POST', path: String(request.url), headers, body: await text(request) });
  const answer = await text(body);
  response.writeHead(statusCode, { ...headers, 'content-length': answer.length });
  response.end(answer);
}

const server = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => void pass(request, response));
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
