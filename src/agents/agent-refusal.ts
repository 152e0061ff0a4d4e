/** OpenAI's names. */
export type RefusalCode = 'context_length_exceeded';

/** A request that cannot be honoured. The dialect gives it its own form. */
export class AgentRefusal extends Error {
  readonly status: number;
  /** The key at fault, such as `messages[2].content`; null if none is. */
  readonly param: string | null;
  /** What clients look for in order to act on it, such as to shorten the conversation. @default null */
  readonly code: RefusalCode | null;

  constructor(status: number, param: string | null, message: string, code: RefusalCode | null = null) {
    super(message);
    this.status = status;
    this.param = param;
    this.code = code;
  }
}
