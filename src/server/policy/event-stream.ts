/** Server-sent events. The response starts with the first event, so that an earlier failure can have its own status. */
import { type PolicyRefusal, refusalOf } from './policy-refusal.ts';

export interface EventStreamOptions {
  /** Sends events until it resolves. A failure after the first event is sent as the last event. `send` never throws. */
  readonly produce: (send: (data: object) => void) => Promise<void>;
  /** Called if the client disconnects. */
  readonly onCancel: () => void;
  /** Called with a failure that was sent as the last event. */
  readonly onRefusal: (refusal: PolicyRefusal) => void;
}

const HEADERS = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' };

/** Rejects if `produce` rejects before its first event. */
export function eventStream({ produce, onCancel, onRefusal }: EventStreamOptions): Promise<Response> {
  const encoder = new TextEncoder();
  return new Promise((resolve, reject) => {
    let controller!: ReadableStreamDefaultController<Uint8Array>;
    let isOpen = true;
    let hasBegun = false;
    const stream = new ReadableStream<Uint8Array>({
      start: (own) => {
        controller = own;
      },
      cancel: () => {
        isOpen = false;
        onCancel();
      },
    });
    const write = (text: string) => {
      if (isOpen) controller.enqueue(encoder.encode(`data: ${text}\n\n`));
      if (!hasBegun) resolve(new Response(stream, { headers: HEADERS }));
      hasBegun = true;
    };
    const end = () => {
      write('[DONE]');
      if (isOpen) controller.close();
      isOpen = false;
    };
    produce((data) => write(JSON.stringify(data))).then(end, (error: unknown) => {
      if (!hasBegun) return reject(error);
      const refusal = refusalOf(error);
      if (isOpen) onRefusal(refusal);
      write(JSON.stringify(refusal.body));
      end();
    });
  });
}
