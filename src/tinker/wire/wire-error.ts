import { VfError } from '../../core/errors.ts';

/** Bytes or JSON of the Tinker wire that break its contract. The message names the field. */
export class WireError extends VfError {
  override readonly name = 'WireError';
}
