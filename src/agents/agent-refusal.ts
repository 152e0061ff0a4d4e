/** A request that cannot be honoured. The dialect gives it its own form. */
export class AgentRefusal extends Error {
  readonly status: number;
  /** The key at fault, such as `messages[2].content`; null if none is. */
  readonly param: string | null;

  constructor(status: number, param: string | null, message: string) {
    super(message);
    this.status = status;
    this.param = param;
  }
}
