import { readJson } from '../../core/read-json.ts';
import { TinkerError } from './tinker-error.ts';

/** The JSON of a service's answer. Throws TinkerError for something else. */
export function answerJson(body: Buffer): unknown {
  try {
    return readJson(body.toString('utf8'));
  } catch (cause) {
    throw new TinkerError(
      'The training service answered something that is not JSON. Check that base_url names a service that speaks the Tinker API',
      { cause },
    );
  }
}
