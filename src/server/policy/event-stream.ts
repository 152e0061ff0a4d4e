/** Server-sent events whose answer begins with the first of them: what fails before that has a status of its own. */
import { type PolicyRefusal, refusalOf } from './policy-refusal.ts';

export interface EventStreamOptions {
  /** Sends events until it resolves; its failure after the first event is told as the last one. `send` throws nothing. */
  readonly produce: (send: (data: object) => void) => Promise<void>;
  /** The reader has gone. */
  readonly onCancel: () => void;
  /** What was told as the last event. */
  readonly onRefusal: (refusal: PolicyRefusal) => void;
}

const HEADERS = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' };

/** Rejects with what `produce` rejects with before it sends anything. */
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
