import type { Message } from '../core/message.ts';
import type { Model, ModelReply, ModelRequest } from '../core/model.ts';

/** A reply, and what it took to get it. */
export interface TimedReply extends ModelReply {
  /** Milliseconds from the first request to the reply. */
  readonly ms: number;
  /** Milliseconds that the call waited for a slot before that. */
  readonly waitMs: number;
  /** Requests sent; 0 where no request was. */
  readonly attempts: number;
}

export interface TimedModel extends Model {
  generate(messages: readonly Message[], request: ModelRequest): Promise<TimedReply>;
}
