/**
 * Event-loop turns of a page. Unlike Node, a page cannot poll for messages while it computes: between two steps it gives the event loop a turn, by a message to itself,
 * which takes microseconds; a timer would take milliseconds.
 */
const channel = new MessageChannel();
const waiting: (() => void)[] = [];
channel.port2.addEventListener('message', () => waiting.shift()?.());
channel.port2.start();

/** Calls back in a later turn, in order. */
export function inLaterTurn(callback: () => void): void {
  waiting.push(callback);
  channel.port1.postMessage(null);
}
