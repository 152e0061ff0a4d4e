/** A request that cannot be answered: the run, set or rollout does not exist, or the query is wrong. The message is one line for the page. */
export class ViewRequestError extends Error {
  readonly status: 400 | 404;

  constructor(status: 400 | 404, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ViewRequestError';
    this.status = status;
  }
}
