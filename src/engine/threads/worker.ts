/** Where a compute thread begins. While there is work it never returns to its event loop: messages are taken between two steps. */
import { parentPort, receiveMessageOnPort } from 'node:worker_threads';
import { ComputeLoop } from './compute-loop.ts';
import type { ToThread } from './messages.ts';

const port = parentPort;
if (port === null) throw new Error('expected to be a thread of the embedded engine, this is a process of its own');

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
