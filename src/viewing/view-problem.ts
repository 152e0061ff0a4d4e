/** A question that cannot be answered: no such run, set or rollout, or a wrong query. The message is one line for the page. */
export class ViewRequestError extends Error {
  readonly status: 400 | 404;

  constructor(status: 400 | 404, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ViewRequestError';
    this.status = status;
  }
}
