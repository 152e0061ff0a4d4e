/** Entry point of a compute thread. While there is work it never returns to its event loop; it polls for messages between two steps. */
import { parentPort, receiveMessageOnPort } from 'node:worker_threads';
import { ComputeLoop } from './compute-loop.ts';
import type { ToThread } from './messages.ts';

const port = parentPort;
if (port === null) throw new Error('this file must run as a worker thread of the embedded engine');

const loop = new ComputeLoop((message) => port.postMessage(message));

function takeWaiting(): void {
  for (let waiting = receiveMessageOnPort(port!); waiting !== undefined; waiting = receiveMessageOnPort(port!))
    loop.take(waiting.message as ToThread);
}

port.on('message', (first: ToThread) => {
  loop.take(first);
  do takeWaiting();
  while (loop.advance());
});
