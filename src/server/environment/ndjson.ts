/** Answers lines of JSON as they come. */

const HEADERS = { 'content-type': 'application/x-ndjson; charset=utf-8', 'cache-control': 'no-cache' };

/** A reader that is slow gets a line at a time. `onCancel` is called when the client leaves. */
export function ndjson(lines: AsyncGenerator<string, void>, onCancel: () => void): Response {
  const encoder = new TextEncoder();
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await lines.next();
      if (next.done === true) controller.close();
      else controller.enqueue(encoder.encode(`${next.value}\n`));
    },
    cancel: onCancel,
  });
  return new Response(stream, { headers: HEADERS });
}
