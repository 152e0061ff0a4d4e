/**
 * Asks /health of the server at argv[2] every 100 ms, in a process separate from environment-soak.ts, whose own work would otherwise count as the server's. Prints a
 * line after the first answer, which takes the time of this process's start; at the end of stdin it prints the times of all others in ms, as JSON.
 */
import { setTimeout as delay } from 'node:timers/promises';

const url = process.argv[2]!;
const times: number[] = [];
const over = new AbortController();
process.stdin.resume().once('end', () => over.abort());

async function health(): Promise<number> {
  const began = performance.now();
  await (await fetch(`${url}/health`)).arrayBuffer();
  return performance.now() - began;
}

await health();
process.stdout.write('ready\n');
while (!over.signal.aborted) {
  times.push(await health());
  await delay(100);
}
process.stdout.write(`${JSON.stringify(times)}\n`);
