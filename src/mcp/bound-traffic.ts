/** Bounds what a server can make this process do and hold without being asked: it may send pings, logs and lines that are not messages, but not without end. */
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { countText } from '../core/count-text.ts';

/** Answers of ours that the server has not read. */
const MOST_UNREAD = 1000;
/** Messages since the last request of ours: a thousand reports of progress in each second of a call. */
const MOST_UNASKED = 100_000;

/** Must be called before a client connects. @param refuse ends the connection; it gets a clause such as `it asked more than 1,000 times without reading the answers` */
export function boundTraffic(transport: Transport, refuse: (excess: string) => Error): void {
  let [unread, unasked] = [0, 0];
  const send = transport.send.bind(transport);
  transport.send = async (message, options) => {
    if ('method' in message) {
      if ('id' in message) unasked = 0;
      return send(message, options);
    }
    if (unread >= MOST_UNREAD) throw refuse(`it asked more than ${countText(MOST_UNREAD)} times without reading the answers`);
    unread++;
    try {
      await send(message, options);
    } finally {
      unread--;
    }
  };
  const count = () => {
    if (++unasked > MOST_UNASKED) refuse(`it sent more than ${countText(MOST_UNASKED)} messages after one request`);
  };
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a transport has no other way; the client calls both after these
  [transport.onmessage, transport.onerror] = [count, count];
}
