/** A run that started a server and is then killed: prints the pids of the server and its engine, and waits. Its argument: the launch options as JSON. */
import { VllmProcess, type VllmLaunchOptions } from '../../src/launch/vllm-process.ts';

const options = JSON.parse(process.argv[2]!) as VllmLaunchOptions;
const server = await VllmProcess.start({ ...options, signal: new AbortController().signal });
const enginePath = server.baseUrl.replace('/v1', '/engine');
const answer = await fetch(enginePath, { headers: { authorization: `Bearer ${options.apiKey}` } });
const { pid: engine = null } = answer.ok ? ((await answer.json()) as { pid?: number }) : {};
process.stdout.write(`${JSON.stringify({ pid: server.pid, engine, baseUrl: server.baseUrl })}\n`);
setInterval(() => {}, 1000);
