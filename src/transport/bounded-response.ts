/** Bounds the answers that a library asks for and parses itself: their bytes, and what JSON in them would become. */
import { countText } from '../core/count-text.ts';
import { ReplyBounds } from '../core/json-bounds.ts';

/**
 * The response, whose body fails where it has too much.
 * @param mostBytes of the body; of a stream of events, of what has arrived since the end of the last one
 * @param failure makes the error from what is too much, such as `has more than 10 bytes`
 */
export function boundedResponse(response: Response, mostBytes: number, failure: (excess: string) => Error): Response {
  if (response.body === null) return response;
  const isEvents = response.headers.get('content-type')?.includes('text/event-stream') === true;
  const bounds = new ReplyBounds();
  let bytes = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      const ended = isEvents ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).lastIndexOf('\n\n') : -1;
      bytes = ended < 0 ? bytes + chunk.length : chunk.length - ended;
      const excess = bytes > mostBytes ? `has more than ${countText(mostBytes)} bytes` : bounds.take(chunk);
      if (excess === null) controller.enqueue(chunk);
      else controller.error(failure(excess));
    },
  });
  const bounded = new Response(response.body.pipeThrough(counted), response);
  // Libraries name it in their errors.
  Object.defineProperty(bounded, 'url', { value: response.url });
  return bounded;
}
