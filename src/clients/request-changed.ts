/** A request that a server takes in another form only. */
import { PolicyError } from '../core/errors.ts';

/** The server needs requests of another form: from now on they have it, so the same request may be sent again. The message says what has changed. */
export class RequestChangedError extends PolicyError {}

/** The server rejected fields of the request, which are left out from now on. */
export class FieldsRejectedError extends RequestChangedError {
  constructor(names: readonly string[], url: string) {
    super(
      names[0] === 'max_tokens'
        ? `${url} rejected max_tokens; the limit is now sent as max_completion_tokens.`
        : `${url} rejected ${names.join(' and ')}: requests now go without ${names.length === 1 ? 'it' : 'them'}.`,
    );
  }
}
