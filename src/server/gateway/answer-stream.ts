/** A streamed answer of a dialect, as server-sent events. It begins once the answer is there, or after a moment, so that an early refusal has its own status. */
import type { AgentTurn } from '../../agents/agent-request.ts';
import { GATEWAY_HEADER } from '../../agents/agent-refusal.ts';
import type { StreamEvent } from '../../agents/dialects/dialect.ts';

export interface AnswerStreamOptions {
  readonly asked: Promise<readonly AgentTurn[]>;
  /** @param turns null if they are not there yet */
  readonly opening: (turns: readonly AgentTurn[] | null) => readonly StreamEvent[];
  readonly events: (turns: readonly AgentTurn[]) => readonly StreamEvent[];
  /** The last events of an answer that failed after its beginning. */
  readonly failure: (error: unknown) => readonly StreamEvent[];
  /** Keeps a silent stream open. */
  readonly keepAlive: string;
  /** Called if the client disconnects. */
  readonly onLeave: () => void;
  /** @default 250 ms */
  readonly opensAfterMs?: number;
  /** @default 10,000 ms */
  readonly keepAliveMs?: number;
}

export const EVENT_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
  // A stream may end in a refusal.
  [GATEWAY_HEADER]: 'stream',
};

/** The whole text if the answer comes soon. Rejects if the answer fails soon. */
export async function answerStream(options: AnswerStreamOptions): Promise<string | ReadableStream<Uint8Array>> {
  const { opening, asked, events, opensAfterMs = 250 } = options;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, opensAfterMs, null);
  });
  const soon = await Promise.race([asked, late]).finally(() => clearTimeout(timer));
  return soon === null ? openStream(options) : textOf([...opening(soon), ...events(soon)]);
}

function openStream({ opening, asked, events, failure, keepAlive, onLeave, keepAliveMs = 10_000 }: AnswerStreamOptions): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let timer: NodeJS.Timeout | undefined;
  let isOpen = true;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const write = (text: string) => {
        if (isOpen) controller.enqueue(encoder.encode(text));
      };
      const end = (last: string) => {
        clearInterval(timer);
        write(last);
        if (isOpen) controller.close();
        isOpen = false;
      };
      write(textOf(opening(null)));
      timer = setInterval(() => {
        // One that waits to be read is enough.
        if ((controller.desiredSize ?? 0) > 0) write(keepAlive);
      }, keepAliveMs);
      void asked
        .then((turns) => textOf(events(turns)))
        .catch((error: unknown) => textOf(failure(error)))
        .then(end);
    },
    cancel() {
      isOpen = false;
      clearInterval(timer);
      onLeave();
    },
  });
}

function textOf(events: readonly StreamEvent[]): string {
  let text = '';
  for (const { event, data } of events) {
    if (event !== undefined) text += `event: ${event}\n`;
    text += `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
  }
  return text;
}
