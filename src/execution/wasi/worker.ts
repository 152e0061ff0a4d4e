/** Entry point of a sandbox thread. It never returns to its event loop: it waits for jobs by the shared counter and takes them from the port. */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { FromThread, ThreadJob, ThreadSetup } from './messages.ts';
import { SandboxLoop } from './sandbox-loop.ts';

const port = parentPort;
if (port === null) throw new Error('this file must run as a worker thread of the sandbox');
const setup = workerData as ThreadSetup;

function nextJob(): ThreadJob {
  for (;;) {
    const seen = Atomics.load(setup.posted, 0);
    const waiting = receiveMessageOnPort(port!);
    if (waiting !== undefined) return waiting.message as ThreadJob;
    Atomics.wait(setup.posted, 0, seen);
  }
}

function post(message: FromThread): void {
  const { user, system } = process.threadCpuUsage();
  setup.cpuMs[0] = (user + system) / 1000;
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread is not a window
  port!.postMessage(message);
}

new SandboxLoop(setup, nextJob, post).run();
