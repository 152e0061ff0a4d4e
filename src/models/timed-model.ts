import type { Message } from '../core/message.ts';
import type { Model, ModelReply, ModelRequest } from '../core/model.ts';

/** A reply with its timings. */
export interface TimedReply extends ModelReply {
  /** Milliseconds from the first request to the reply. */
  readonly ms: number;
  /** Milliseconds that the call waited for a slot before that. */
  readonly waitMs: number;
  /** Number of requests that were sent; 0 for a cached reply. */
  readonly attempts: number;
}

export interface TimedModel extends Model {
  generate(messages: readonly Message[], request: ModelRequest): Promise<TimedReply>;
}
