/**
 * Takes the place of `python -m vllm.entrypoints.openai.api_server ...`: reads the flags, starts a helper process as vLLM starts its engine, serves
 * /health and /v1/models on loopback and takes adapters. `STAND_IN` in its environment says how it misbehaves.
 */
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';

const flag = (name: string) => process.argv.find((arg) => arg.startsWith(`${name}=`))!.slice(name.length + 1);
const key = process.env['VLLM_API_KEY'];
const manner = process.env['STAND_IN'] ?? '';
const names = new Set([flag('--served-model-name')]);

process.stdout.write(
  `stand-in, pid ${process.pid}, with ${Object.keys(process.env).length} variables, GPUs ${process.env['CUDA_VISIBLE_DEVICES']}, key ${key}\n`,
);
if (manner === 'fails') {
  process.stderr.write(`RuntimeError: no such device for ${process.env['VLLM_API_KEY']}\nRuntimeError: Engine core initialization failed.\nbye\n`);
  process.exit(3);
}
// Deaf to SIGTERM, so that only the end of the whole group ends it.
const engine = spawn(process.execPath, ['-e', "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)"], { stdio: 'ignore' });
if (manner === 'deaf') process.on('SIGTERM', () => {});
let sick = manner === 'never-ready';
const server = createServer((request, response) => {
  const answer = (status: number, body: unknown = {}) => response.writeHead(status).end(JSON.stringify(body));
  if (request.url === '/health') return answer(sick ? 503 : 200);
  if (request.headers.authorization !== `Bearer ${key}`) return answer(401, { error: 'Unauthorized' });
  if (request.url === '/v1/models') return answer(200, { data: [...names].map((id) => ({ id })) });
  if (request.url === '/engine') return answer(200, { pid: engine.pid });
  if (request.url === '/fall-sick') sick = true;
  const adapter = /^\/load\/(.+)$/.exec(request.url ?? '')?.[1];
  if (adapter !== undefined) names.add(adapter);
  return answer(200);
});
server.listen(Number(flag('--port')), flag('--host'));
